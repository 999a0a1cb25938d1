"""Hosts of one cell: service and hypervisor rows. Each method is one transaction."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from whimbrel.domain.guest import Order
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName

SAID_BY_THE_HOST = (
    *("driver", "vcpus", "memory_mib", "disk_gib"),
    *("hypervisor_type", "hypervisor_version", "cpu_info", "host_ip", "numa"),
)
"""The fields that `register` renews. The others are set by operators or when the row is made."""


class Hosts(Protocol):
    @property
    def changes(self) -> int:
        """Count the changes of hosts through this object, without heartbeats."""
        ...

    async def all(self) -> list[Host]: ...

    async def get(self, name: HostName) -> Host:
        """Raises: NotFound."""
        ...

    async def register(self, host: Host) -> Host:
        """Insert a host, or renew its properties (sizes, hypervisor) if it is known; operators' settings stay."""
        ...

    async def register_all(self, hosts: Sequence[Host]) -> list[Host]:
        """Register several hosts, all or none; see `register`."""
        ...

    async def seen(self, names: Sequence[HostName], now: float) -> None:
        """Record a heartbeat of these hosts."""
        ...

    async def tell(self, metrics: Mapping[HostName, Mapping[str, float]]) -> None:
        """Record the reported load of hosts, replacing earlier reports."""
        ...

    async def set_service(
        self, name: HostName, *, enabled: bool, disabled_reason: str | None, forced_down: bool
    ) -> Host:
        """Set the operator's settings. Raises: NotFound."""
        ...

    async def build_failed(self, order: Order, name: HostName, now: float) -> None:
        """Count a failed build of a run on the host. Repeatable. Raises: Superseded."""
        ...

    async def failed_builds(self) -> dict[HostName, int]:
        """Count failed builds by host, since the last successful build or arrival of a server."""
        ...

    async def delete(self, name: HostName) -> None:
        """Remove the row. Raises: NotFound."""
        ...
