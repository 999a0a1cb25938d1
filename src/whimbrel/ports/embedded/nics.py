"""The network cards of all hosts, as the network service asks for them."""

from collections.abc import Mapping
from typing import Protocol

from whimbrel.domain.host_nics import HostNet


class Nics(Protocol):
    async def all(self) -> Mapping[str, HostNet]:
        """Return the cards by host; they may be some seconds old. Raises: Unavailable: they were never read."""

    async def including(self, host: str) -> Mapping[str, HostNet]:
        """Return the cards by host, read again if this host is not known; host "": none. Raises: as `all`."""
