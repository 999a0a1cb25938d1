"""A host: a machine with a hypervisor and an agent, in one cell and one zone."""

import msgspec

from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.domain.numa import NumaNode

SERVICE_DOWN_S = 60.0


class Host(msgspec.Struct, kw_only=True):
    """A host's row: its service and its hypervisor."""

    name: HostName
    cell: CellName
    id: ProviderId  # the hypervisor's uuid and its root resource provider's
    number: int = 0  # small id of hypervisor and service below 2.53; set by the store
    service_id: str  # uuid of its nova-compute service
    driver: str  # "simulated" | "libvirt"
    vcpus: int
    memory_mib: int
    disk_gib: int
    enabled: bool = True
    disabled_reason: str | None = None
    forced_down: bool = False
    seen_at: float = 0.0  # last heartbeat, seconds since 1970
    created_at: float = 0.0
    hypervisor_type: str = "QEMU"
    hypervisor_version: int = 1
    cpu_info: str = "{}"
    host_ip: str = "127.0.0.1"
    numa: tuple[NumaNode, ...] = ()  # none: it does not tell
    metrics: dict[str, float] = {}  # what it told last of its load, by Nova's names, where that is asked for

    def is_up(self, now: float) -> bool:
        """Tell whether its agent gave a sign of life lately and nobody declared it down."""
        return not self.forced_down and now - self.seen_at < SERVICE_DOWN_S


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """An availability zone. Everything inside keeps its id; people know it by its name, which may change."""

    id: str
    name: str
    created_at: float = 0.0


class Aggregate(msgspec.Struct, kw_only=True):
    """A named set of hosts; with the metadata key `availability_zone`, a zone's id, it puts them into that zone."""

    id: int
    uuid: str
    name: str
    hosts: list[HostName] = []
    metadata: dict[str, str] = {}
    created_at: float = 0.0
    updated_at: float | None = None

    @property
    def zone(self) -> str | None:
        """Give the id of the zone that its hosts are in."""
        return self.metadata.get("availability_zone")
