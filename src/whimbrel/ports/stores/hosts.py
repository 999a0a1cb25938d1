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
"""What `register` renews; the rest of a row is an operator's, or made with it."""


class Hosts(Protocol):
    @property
    def changes(self) -> int:
        """Tell how often hosts were changed by way of this very object, signs of life left out."""
        ...

    async def all(self) -> list[Host]: ...

    async def get(self, name: HostName) -> Host:
        """Raises: NotFound."""
        ...

    async def register(self, host: Host) -> Host:
        """Insert a host, or renew what it is (sizes, hypervisor) if it is known; what operators set stays."""
        ...

    async def register_all(self, hosts: Sequence[Host]) -> list[Host]:
        """Register several hosts, all or none; see `register`."""
        ...

    async def seen(self, names: Sequence[HostName], now: float) -> None:
        """Write down a sign of life of these hosts."""
        ...

    async def tell(self, metrics: Mapping[HostName, Mapping[str, float]]) -> None:
        """Write down what hosts tell of their load, each instead of what it told before."""
        ...

    async def set_service(
        self, name: HostName, *, enabled: bool, disabled_reason: str | None, forced_down: bool
    ) -> Host:
        """Set what an operator decides. Raises: NotFound."""
        ...

    async def build_failed(self, order: Order, name: HostName, now: float) -> None:
        """Count that a run could not build its server there. Repeatable. Raises: Superseded."""
        ...

    async def failed_builds(self) -> dict[HostName, int]:
        """Count, by host, the builds that failed since a server was last built or brought there."""
        ...

    async def delete(self, name: HostName) -> None:
        """Remove the row. Raises: NotFound."""
        ...
