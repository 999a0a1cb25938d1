"""Hosts of one cell: service and hypervisor rows. Each method is one transaction."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.guest import Order
from whimbrel.domain.host import ForcedDown, Host
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_hardware import Hardware
from whimbrel.domain.ids import HostName
from whimbrel.ports.stores.fleet import Load

SAID_BY_THE_HOST = (
    *("driver", "vcpus", "memory_mib", "disk_gib"),
    *("hypervisor_type", "hypervisor_version", "cpu_info", "host_ip", "numa", "self_fence_s"),
)
"""The fields that `register` renews. The others are set by operators or when the row is made."""


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The agent of a host that began its newest session. An agent in the process of the cloud has no release here."""

    release: str = ""
    verbs: dict[str, tuple[str, ...]] = {}  # verb -> the names of its arguments


class LastBeat(msgspec.Struct, frozen=True, kw_only=True):
    """What heartbeats are compared with."""

    session: int
    seen_at: float
    digest: str  # of the stored description; "": there is none
    metrics: dict[str, float] = {}


class HostNews(msgspec.Struct, frozen=True, kw_only=True):
    """What changed about a cell's hosts since a mark; without a mark, all of it."""

    mark: int  # for the next question
    newest: int  # number of the newest change
    changed: frozenset[HostName]  # empty without a mark
    hosts: list[Host] = []  # of these; all without a mark, in order of their numbers
    loads: dict[HostName, Load] = {}  # a host without any is left out
    images: dict[HostName, dict[str, int]] = {}  # servers by image, if asked for


class Hosts(Protocol):
    @property
    def changes(self) -> int:
        """Count the changes of hosts through this object, without heartbeats."""

    async def all(self) -> list[Host]: ...

    async def get(self, name: HostName) -> Host:
        """Raises: NotFound."""

    async def news(self, mark: int | None, *, images: bool = False) -> HostNews:
        """Return what changed since the last answer, which had this mark; None: everything.

        A change is one of a host's row, except heartbeats and metrics, or of what is on the host. None is missed if the
        last answer is not older than the changes that `forget_news` leaves; some may be reported twice.
        """

    async def beats(self) -> dict[HostName, tuple[float, dict[str, float]]]:
        """Return the time of the last heartbeat and the metrics of each host."""

    async def forget_news(self, until: int) -> None:
        """Forget the changes up to this number."""

    async def register(self, host: Host) -> Host:
        """Insert a host, or renew its properties (sizes, hypervisor) if it is known; operators' settings stay."""

    async def register_all(
        self, hosts: Sequence[Host], described: Mapping[HostName, HostDescription] | None = None
    ) -> list[Host]:
        """Register several hosts, all or none; see `register`. described: stored beside their rows."""

    async def begin_session(self, host: Host, agent: AgentInfo, description: HostDescription) -> Host:
        """Register a host and begin the next session of its agent; return the host with the session's number.

        No two calls return the same number, and a later call returns a higher one.
        """

    async def raise_sessions(self, sessions: Mapping[HostName, int]) -> None:
        """Store sessions that are higher than the stored ones; lower ones change nothing."""

    async def describe(self, host: Host, session: int, description: HostDescription) -> Host:
        """Renew a host and its description as of a session. Raises: Superseded: the session is not the newest."""

    async def descriptions(self) -> dict[HostName, HostDescription]:
        """Return the stored descriptions; hosts of an older release have none until they are registered again.

        They are without the hardware, and have its digest.
        """

    async def hardware(self, name: HostName) -> Hardware | None:
        """Return what was found on a host; None: that was not reported, or the host is unknown."""

    async def agent(self, host: Host) -> AgentInfo:
        """Return the agent that began the session of this host; without a session one that says nothing.

        Read once for each session. Raises: NotFound: the host is gone.
        """

    async def agents(self) -> dict[HostName, AgentInfo]:
        """Return the agents of all hosts that have had a session."""

    async def last_beats(self, names: Collection[HostName]) -> dict[HostName, LastBeat]:
        """Return what is stored of these hosts' heartbeats; unknown hosts are left out."""

    async def seen(self, names: Sequence[HostName], now: float) -> None:
        """Record a heartbeat of these hosts."""

    async def tell(self, metrics: Mapping[HostName, Mapping[str, float]]) -> None:
        """Record the reported load of hosts, replacing earlier reports."""

    async def set_service(
        self,
        name: HostName,
        *,
        enabled: bool,
        disabled_reason: str | None,
        forced_down: bool | None,
        word: ForcedDown | None = None,
    ) -> Host:
        """Set the operator's settings. forced_down: None: it stays as it is, with the word.

        word: the user who forced it down, and the reason; None: unknown. Raises: NotFound.
        """

    async def build_failed(self, order: Order, name: HostName, now: float) -> None:
        """Count a failed build of a run on the host. Repeatable. Raises: Superseded."""

    async def delete(self, name: HostName) -> None:
        """Remove the row. Raises: NotFound."""
