"""The network cards of all hosts, as the network service asks for them."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from whimbrel.domain.host_nics import HostNet


class Nics(Protocol):
    async def all(self) -> Mapping[str, HostNet]:
        """Return the cards by host; they may be some seconds old. Raises: Unavailable: they were never read."""

    async def including(self, host: str) -> Mapping[str, HostNet]:
        """Return the cards by host, read again if this host is not known; host "": none. Raises: as `all`."""


class GivenNics:
    """Implements Nics for hosts that never change."""

    def __init__(self, hosts: Iterable[HostNet]) -> None:
        self._hosts = {host.host: host for host in hosts}

    async def all(self) -> Mapping[str, HostNet]:
        return self._hosts

    async def including(self, host: str) -> Mapping[str, HostNet]:
        return self._hosts
