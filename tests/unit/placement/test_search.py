"""Finding providers, and placing requests that have no named groups."""

from typing import Any

from tests.unit.placement.plain_index import NodeIndex
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.candidates import candidates
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Node, Provider
from whimbrel.placement.search import Request, Wanted, matching
from whimbrel.ports.placement.placement import Inventory


def node(name: str, parent: str | None = None, root: str | None = None, used: int = 0, **fields: Any) -> Node:
    """Make a provider; room: resource class -> total."""
    uuid = ProviderId(name)
    return Node(
        provider=Provider(
            uuid=uuid,
            name=name,
            generation=0,
            parent=ProviderId(parent) if parent else None,
            root=ProviderId(root or parent or name),
        ),
        stocks={each: Stock(Inventory(total=total), used) for each, total in fields.get("room", {}).items()},
        traits=frozenset(fields.get("traits", ())),
        aggregates=frozenset(fields.get("aggregates", ())),
    )


def one_of(*names: str) -> frozenset[str]:
    return frozenset(names)


def names(provider_index: NodeIndex, **wanted: Any) -> set[str]:
    return {found.provider.name for found in matching(provider_index, Wanted(**wanted))}


def assignments(
    provider_index: NodeIndex, *, nested: bool = True, limit: int | None = None, **wanted: Any
) -> list[dict[str, Any]]:
    request = Request(groups={"": Wanted(**wanted)}, nested=nested, limit=limit)
    return [dict(found.parts) for found in candidates(provider_index, request)]


HOSTS = NodeIndex(
    [
        node("a", room={"VCPU": 4}, traits=["FAST"], aggregates=["east"]),
        node("b", room={"VCPU": 8}, traits=["FAST", "HOT"], aggregates=["west"]),
        node("c", room={"VCPU": 8}, used=7),
    ]
)


def test_matching() -> None:
    assert names(HOSTS) == {"a", "b", "c"}
    assert names(HOSTS, resources={"VCPU": 5}) == {"b"}
    assert names(HOSTS, required=[one_of("FAST")]) == {"a", "b"}
    assert names(HOSTS, required=[one_of("FAST"), one_of("HOT", "COLD")]) == {"b"}
    assert names(HOSTS, forbidden=one_of("HOT")) == {"a", "c"}
    assert names(HOSTS, member_of=[one_of("east", "west")]) == {"a", "b"}
    assert names(HOSTS, member_of=[one_of("east"), one_of("west")]) == set()
    assert names(HOSTS, not_member_of=one_of("east")) == {"b", "c"}
    assert names(HOSTS, in_tree=ProviderId("a")) == {"a"}
    assert names(HOSTS, in_tree=ProviderId("nobody")) == set()


def test_candidates_of_flat_hosts() -> None:
    assert assignments(HOSTS, resources={"VCPU": 2}) == [{"a": {"VCPU": 2}}, {"b": {"VCPU": 2}}]
    assert assignments(HOSTS, resources={"VCPU": 2}, limit=1) == [{"a": {"VCPU": 2}}]
    assert assignments(HOSTS, resources={"VCPU": 1, "VGPU": 1}) == []


TREE = NodeIndex(
    [
        node("host", room={"VCPU": 8, "VGPU": 1}, traits=["FAST"], aggregates=["east"]),
        node("gpu1", "host", room={"VGPU": 1}, traits=["RED"]),
        node("gpu2", "host", room={"VGPU": 1}, traits=["BLUE"], aggregates=["west"]),
    ]
)


def test_candidates_of_a_tree() -> None:
    want = {"VCPU": 1, "VGPU": 1}
    assert assignments(TREE, resources=want) == [
        {"host": {"VCPU": 1, "VGPU": 1}},
        {"host": {"VCPU": 1}, "gpu1": {"VGPU": 1}},
        {"host": {"VCPU": 1}, "gpu2": {"VGPU": 1}},
    ]
    assert assignments(TREE, resources=want, nested=False) == [{"host": want}]


def test_traits_may_be_spread_over_the_providers_of_a_candidate() -> None:
    want = {"VCPU": 1, "VGPU": 1}
    expected = [{"host": {"VCPU": 1}, "gpu1": {"VGPU": 1}}]
    assert assignments(TREE, resources=want, required=[one_of("FAST"), one_of("RED")]) == expected
    assert len(assignments(TREE, resources=want, forbidden=one_of("RED"))) == 2


def test_a_tree_is_in_the_aggregates_of_its_root() -> None:
    want = {"VGPU": 1}
    assert len(assignments(TREE, resources=want, member_of=[one_of("east")])) == 3
    assert assignments(TREE, resources=want, member_of=[one_of("west")]) == [{"gpu2": want}]
    assert assignments(TREE, resources=want, not_member_of=one_of("east")) == []
    assert len(assignments(TREE, resources=want, not_member_of=one_of("west"))) == 2


def test_one_tree_only() -> None:
    assert assignments(TREE, resources={"VGPU": 1}, in_tree=ProviderId("gpu1"), limit=1) == [{"host": {"VGPU": 1}}]
    assert assignments(TREE, resources={"VGPU": 1}, in_tree=ProviderId("nobody")) == []
