"""The network cards of hosts that never change."""

from collections.abc import Iterable, Mapping

from whimbrel.domain.host_nics import HostNet


class GivenNics:
    """Implements ports.embedded.nics.Nics."""

    def __init__(self, hosts: Iterable[HostNet]) -> None:
        self._hosts = {host.host: host for host in hosts}

    async def all(self) -> Mapping[str, HostNet]:
        return self._hosts

    async def including(self, host: str) -> Mapping[str, HostNet]:
        return self._hosts
