"""Hosts: machines with a hypervisor and an agent, each in one cell and one zone."""

import msgspec

from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.domain.numa import NumaNode

SERVICE_DOWN_S = 60.0

BEAT_STORED_AFTER_S = 15.0
"""The age of a stored heartbeat after which a new one is stored."""


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
    numa: tuple[NumaNode, ...] = ()  # empty: not reported
    metrics: dict[str, float] = {}  # last reported load by Nova's names, if reporting is configured
    forced_down_by: str | None = None  # the user who forced it down
    forced_down_reason: str | None = None
    forced_down_at: float | None = None
    self_fence_s: float | None = None  # it stops its guests when it was cut off for so long; None: never
    session: int = 0  # of its agent, counted up at each start of one; 0: an agent in the process of the cloud

    def is_up(self, now: float) -> bool:
        """Check whether its agent sent a heartbeat recently and the host is not forced down."""
        return not self.forced_down and now - self.seen_at < SERVICE_DOWN_S

    def state(self, now: float) -> str:
        """Return up, disabled (up, but takes no servers), down or forced_down (an operator said so)."""
        if self.forced_down:
            return "forced_down"
        if not self.is_up(now):
            return "down"
        return "up" if self.enabled else "disabled"

    def up_words(self, now: float) -> str:
        """Return that the host is up and when it would not count as up, for an error: it may have died just now."""
        age = f"last heartbeat: {max(now - self.seen_at, 0):.0f} s ago"
        return f"Host {self.name} is up ({age}; without one for {SERVICE_DOWN_S:.0f} s it is down)"


class ForcedDown(msgspec.Struct, frozen=True, kw_only=True):
    """An administrator's word that a host is down. by: a user's name. reason: a sentence. at: seconds since 1970."""

    by: str | None = None
    reason: str | None = None
    at: float | None = None


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """An availability zone. Internally it is referred to by id; users know it by its name, which may change."""

    id: str
    name: str
    created_at: float = 0.0


class Aggregate(msgspec.Struct, kw_only=True):
    """A named set of hosts. The metadata key `availability_zone`, a zone's id, puts the hosts into that zone."""

    id: int
    uuid: str
    name: str
    hosts: list[HostName] = []
    metadata: dict[str, str] = {}
    created_at: float = 0.0
    updated_at: float | None = None

    @property
    def zone(self) -> str | None:
        return self.metadata.get("availability_zone")
