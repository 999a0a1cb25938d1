"""What is asked of a host. Everything that a decision depends on besides the hosts themselves is here."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.ports.placement.assignments import ResourceRequest

GroupPolicy = Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """The group of a server: its rule, and where the others of it are."""

    policy: GroupPolicy
    max_server_per_host: int = 1  # of anti-affinity
    members: Mapping[ProviderId, int] = {}  # root provider of a host -> how many others hold something there


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked; None: anything."""

    resources: ResourceRequest
    home_cell: CellName | None = None  # the one that the server is in
    cells: frozenset[CellName] | None = None  # the target is in one of these
    networks: Mapping[str, str] = {}  # physical networks that its ports need -> whose, in words
    storage: frozenset[str] = frozenset()  # storage back ends that its volumes are on
    zone: str | None = None  # id
    zone_because: str = ""  # why it must be in this zone
    preferred_zone: str | None = None
    host: HostName | None = None
    excluded: frozenset[HostName] = frozenset()
    excluded_because: str = "it is the host that the server is on"
    group: GroupState | None = None
    flavor: Flavor | None = None
    image_id: str | None = None
    image_properties: Mapping[str, str] = {}
    project: str = ""
    hints: Mapping[str, Any] = {}
    hinted: Mapping[str, HostName] = {}  # id of a server that the hints name -> where it is; who is nowhere is left out
    wants_pci: bool = False
    spread: str = ""  # hosts of equal weight are taken in an order that depends on this
