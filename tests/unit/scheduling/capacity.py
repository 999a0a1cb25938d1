"""Hosts for the scheduler's tests, with the room they have: over the index itself, made of plain words."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from whimbrel.domain.host import Aggregate, Host
from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.placement.capacity import IndexCapacity
from whimbrel.placement.index import Index
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Node, Provider
from whimbrel.ports.placement.placement import Inventory
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.fleet import Fleet, Load
from whimbrel.scheduling.snapshot import Snapshot

NOW = 1000.0
TOTAL = 8
FREE = {"VCPU": 4, "MEMORY_MB": 4}
NO_RULES = SchedulerRules()


def host(name: str, **more: Any) -> Host:
    fields: dict[str, Any] = {
        "cell": CellName("c1"), "id": ProviderId(name), "service_id": name, "driver": "simulated", "vcpus": 8,
        "memory_mib": 8, "disk_gib": 10, "seen_at": NOW,
    }  # fmt: skip
    return Host(name=HostName(name), **{**fields, **more})


def aggregate(number: int, hosts: Sequence[str], **metadata: str) -> Aggregate:
    members = [HostName(name) for name in hosts]
    return Aggregate(id=number, uuid=f"a{number}", name=f"a{number}", hosts=members, metadata=metadata)


def snapshot(
    hosts: Sequence[Host],
    free: Mapping[str, Mapping[str, int]] | None = None,
    *,
    largest: Mapping[str, int] | None = None,
    traits: Mapping[str, Sequence[str]] | None = None,
    aggregates: Sequence[Aggregate] = (),
    loads: Mapping[str, Load] | None = None,
    cells: Sequence[CellInfo] = (),
    unreachable: Sequence[str] = (),
    below: Mapping[str, Mapping[str, int]] | None = None,
    images: Mapping[HostName, Mapping[str, int]] | None = None,
    image_properties: Mapping[str, Mapping[str, str]] | None = None,
    rules: SchedulerRules = NO_RULES,
) -> Snapshot:
    """Make a snapshot; a host of which `free` says nothing has FREE of TOTAL.

    largest: that one claim may take. below: what a provider below a host has free of TOTAL.
    """
    nodes = [
        _node(
            one.id,
            (free or {}).get(one.name, FREE),
            (largest or {}).get(one.name, TOTAL),
            (traits or {}).get(one.name, ()),
        )
        for one in hosts
    ]
    nodes += [_node(ProviderId(f"{name}_below"), room, TOTAL, (), name) for name, room in (below or {}).items()]
    fleet = Fleet(
        hosts,
        aggregates,
        "nova",
        {HostName(name): load for name, load in (loads or {}).items()},
        {cell.name: cell for cell in cells},
        frozenset(CellName(name) for name in unreachable),
        images or {},
        image_properties or {},
    )
    return Snapshot(fleet, IndexCapacity(Index(nodes, Random(0)), fleet.providers), NOW, rules)


def _node(
    uuid: ProviderId, free: Mapping[str, int], largest: int, traits: Sequence[str], root: str | None = None
) -> Node:
    has = Inventory(total=TOTAL, max_unit=largest)
    return Node(
        provider=Provider(
            uuid=uuid, name=uuid, generation=0, root=ProviderId(root or uuid), parent=ProviderId(root) if root else None
        ),
        stocks={name: Stock(has, TOTAL - amount) for name, amount in free.items()},
        traits=frozenset(traits),
        aggregates=frozenset(),
    )
