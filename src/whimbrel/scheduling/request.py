"""The request to the scheduler: all inputs of a decision besides the hosts."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.domain.live_transfer import GuestCpu
from whimbrel.ports.placement.assignments import ResourceRequest

GroupPolicy = Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """The group of a server: its policy, and the locations of its other members."""

    policy: GroupPolicy
    max_server_per_host: int = 1  # of anti-affinity
    members: Mapping[ProviderId, int] = {}  # root provider of a host -> number of other members with claims there


class RunningGuest(msgspec.Struct, frozen=True, kw_only=True):
    """The guest of a live move: the host that it runs on, and the processor that it sees."""

    host: HostName
    cpu: GuestCpu


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The request; None: any."""

    resources: ResourceRequest
    home_cell: CellName | None = None  # the server's current cell
    cells: frozenset[CellName] | None = None  # allowed cells of the target
    live_from: CellName | None = None  # of a live migration: the cell that has to reach the target's hosts
    networks: Mapping[str, str] = {}  # physical networks that its ports need -> their owner, in words
    storage: frozenset[str] = frozenset()  # storage back ends of its volumes
    zone: str | None = None  # id
    zone_because: str = ""  # why it must be in this zone
    preferred_zone: str | None = None
    host: HostName | None = None
    forced: bool = False  # whether an administrator overrides for this host what is overridable
    excluded: frozenset[HostName] = frozenset()
    excluded_because: str = "it is the host that the server is on"
    group: GroupState | None = None
    flavor: Flavor | None = None
    image_id: str | None = None
    image_properties: Mapping[str, str] = {}
    machine: str = ""  # type of machine that its guest is; "": any
    project: str = ""
    hints: Mapping[str, Any] = {}
    hinted: Mapping[str, HostName] = {}  # server id in the hints -> its host; servers without a host are omitted
    wants_pci: bool = False
    live: RunningGuest | None = None  # if the server moves while it runs
    spread: str = ""  # seed of the order among hosts of equal weight
