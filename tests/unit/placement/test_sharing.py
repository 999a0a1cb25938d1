"""Hosts beside disks and a network that they share: the same questions as Placement's own users ask."""

from typing import Any

from tests.unit.placement.plain_index import NodeIndex
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.candidates import candidates
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Node, Provider
from whimbrel.placement.search import SHARING, Request, Wanted
from whimbrel.ports.placement.placement import Inventory


def one(name: str, room: dict[str, int], traits: str, aggregates: str) -> Node:
    return Node(
        provider=Provider(uuid=ProviderId(name), name=name, generation=0, parent=None, root=ProviderId(name)),
        stocks={each: Stock(Inventory(total=total), 0) for each, total in room.items()},
        traits=frozenset(traits.split()),
        aggregates=frozenset(aggregates),
    )


HOST = {"VCPU": 8, "MEMORY_MB": 4096}
CARDS = {"VF": 8, "MBPS": 4000}
TREES = NodeIndex(
    [
        one("left", HOST | CARDS | {"DISK_GB": 500, "VGPU": 8}, "GPU", "A"),
        one("middle", HOST, "SSE", "AB"),
        one("right", HOST | {"DISK_GB": 500, "VGPU": 8}, "GPU SSD", "BC"),
        one("disk1", {"DISK_GB": 1000}, f"SSD {SHARING}", "A"),
        one("disk2", {"DISK_GB": 1000}, SHARING, "AB"),
        one("net", CARDS, SHARING, "C"),
    ]
)


def assignments(policy: Any = "none", **groups: Wanted) -> list[str]:
    """Return who serves each group, in their order."""
    request = Request(groups={name.removeprefix("one"): wanted for name, wanted in groups.items()}, group_policy=policy)
    return sorted(
        " ".join("+".join(sorted(uuids)) for uuids in found.mappings.values()) for found in candidates(TREES, request)
    )


def want(required: str = "", forbidden: str = "", **more: Any) -> Wanted:
    aggregates = more.pop("member_of", [])
    return Wanted(
        resources=more,
        required=[frozenset((trait,)) for trait in required.split()],
        forbidden=frozenset(forbidden.split()),
        member_of=[frozenset(some) for some in aggregates],
    )


def test_a_disk_from_the_host_or_from_beside_it() -> None:
    compute, disk = want(VCPU=1, MEMORY_MB=1024), want(DISK_GB=100)
    shared = ["left disk1", "left disk2", "middle disk1", "middle disk2", "right disk2"]
    assert assignments("isolate", _A=compute, _B=disk) == shared
    assert assignments(_A=compute, _B=disk) == sorted([*shared, "left left", "right right"])
    assert len(assignments(one=want(VCPU=1, MEMORY_MB=1024, DISK_GB=100))) == 7
    assert assignments("isolate", _A=compute, _B=want("SSD", DISK_GB=100)) == ["left disk1", "middle disk1"]
    assert len(assignments(_A=want(VCPU=1), _B=want(forbidden="SSD", DISK_GB=100))) == 4


def test_what_is_shared_is_found_once() -> None:
    assert assignments(one=want(DISK_GB=800)) == assignments(_A=want(DISK_GB=800)) == ["disk1", "disk2"]


def test_aggregates_are_asked_of_who_gives() -> None:
    assert assignments(_A=want(VCPU=1), _B=want(DISK_GB=100, member_of=["C"])) == ["right right"]
    disk = want(DISK_GB=100, member_of=["A", "BC"])
    assert assignments("isolate", _A=want(VCPU=1), _B=disk) == ["left disk2", "middle disk2", "right disk2"]
    disk = want("SSD", DISK_GB=100, member_of=["AC"])
    assert assignments(_A=want(forbidden="SSE", VCPU=1), _B=disk) == ["left disk1", "right right"]


def test_many_groups_at_once() -> None:
    found = assignments(
        _1=want(VCPU=1),
        _2=want("GPU", VGPU=1),
        _3=want(MEMORY_MB=1024),
        _4=want("SSD", DISK_GB=100),
        _5=want(forbidden="SSD", DISK_GB=50),
        _6=want(VF=1, MBPS=1000),
        _7=want(VF=2, MBPS=2000),
    )
    assert found == [
        "left left left disk1 disk2 left left",
        "left left left disk1 left left left",
        "right right right right disk2 net net",
    ]
