"""Ways of requests in the trees of hosts, and what is lacking where there is none."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.depth import one_in
from tests.unit.placement.plain_index import NodeIndex
from tests.unit.placement.test_capacity import resources
from tests.unit.placement.test_index import Drawn
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.assignments import all_assignments, request_of
from whimbrel.placement.candidates import candidates
from whimbrel.placement.index import Index
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Node, Provider
from whimbrel.placement.search import SHARING
from whimbrel.ports.placement.assignments import Assignment, Group, ResourceRequest, Shortfall
from whimbrel.ports.placement.placement import Inventory

ROOT = ProviderId("host")
SSD = frozenset({"CUSTOM_SSD"})

Key = tuple[frozenset[tuple[str, str, int]], frozenset[tuple[str, str]]]


def key(way: Assignment) -> Key:
    taken = ((uuid, name, amount) for uuid, part in way.parts.items() for name, amount in part.items())
    return frozenset(taken), frozenset(way.served.items())


@pytest.mark.parametrize("seed", one_in(4, range(60)))
def test_all_ways_of_a_host_are_the_candidates_of_its_tree(seed: int) -> None:
    drawn = Drawn(seed)
    nodes = [node for node in drawn.nodes(drawn.random.randint(1, 12)) if SHARING not in node.traits]
    nodes = [node for node in nodes if {node.provider.root, node.provider.parent or ""} <= uuids(nodes) | {""}]
    roots = [node.provider.uuid for node in nodes if node.provider.parent is None]
    index = Index(nodes, Random(seed))
    for _ in range(8):
        one = resources(drawn)
        told = all_assignments(index, one, [*roots, ProviderId("nobody")], 10_000)
        for root in roots:
            tree = NodeIndex(NodeIndex(nodes).tree(root))
            expected = {
                (
                    frozenset((uuid, name, n) for uuid, part in found.parts.items() for name, n in part.items()),
                    frozenset((suffix[1:], uuids[0]) for suffix, uuids in found.mappings.items() if suffix),
                )
                for found in candidates(tree, request_of(one))
            }
            here = told[root]
            assert (set() if isinstance(here, Shortfall) else {key(way) for way in here}) == expected
            first = all_assignments(index, one, [root], 1)[root]
            assert first == (here if isinstance(here, Shortfall) else here[:1])
        assert told.keys() == set(roots)


def uuids(nodes: list[Node]) -> set[str]:
    return {node.provider.uuid for node in nodes}


def node(uuid: str, parent: str | None = None, /, traits: Any = (), aggregates: Any = (), **stocks: Stock) -> Node:
    provider = Provider(
        uuid=ProviderId(uuid),
        name=f"name of {uuid}",
        generation=0,
        parent=ProviderId(parent) if parent else None,
        root=ROOT,
    )
    return Node(provider=provider, stocks=stocks, traits=frozenset(traits), aggregates=frozenset(aggregates))


def stock(total: int, used: int = 0, **more: Any) -> Stock:
    return Stock(Inventory(total=total, **more), used)


HOST = [
    node("host", traits=["CUSTOM_SSD"], aggregates=["east"], VCPU=stock(8, 5), PCPU=stock(4, max_unit=2)),
    node("card1", "host", traits=["CUSTOM_RED"], VGPU=stock(4, 3), CUSTOM_BLOCK=stock(8, step_size=4)),
    node("card2", "host", traits=["CUSTOM_BLUE"], VGPU=stock(4, 1), CUSTOM_PORT=stock(2)),
]


def gpu(name: str, number: int = 1, **more: Any) -> Group:
    return Group(id=name, resources={"VGPU": number}, **more)


def lacks(what: ResourceRequest, nodes: list[Node] = HOST) -> Shortfall:
    told = all_assignments(Index(nodes, Random(0)), what, [ROOT], 4)[ROOT]
    assert isinstance(told, Shortfall)
    return told


def test_groups_go_to_any_of_the_cards() -> None:
    told = all_assignments(
        Index(HOST, Random(0)), ResourceRequest(own={"VCPU": 1}, groups=(gpu("a"), gpu("b"))), [ROOT], 10
    )[ROOT]
    assert not isinstance(told, Shortfall)
    served = {(way.served["a"], way.served["b"]) for way in told}
    assert served == {("card1", "card2"), ("card2", "card1"), ("card2", "card2")}  # card1 has room for one only
    way = next(way for way in told if way.served["a"] == "card1")
    assert way.parts == {"host": {"VCPU": 1}, "card1": {"VGPU": 1}, "card2": {"VGPU": 1}}
    assert way.served_by == {"a": "name of card1", "b": "name of card2"}


@pytest.mark.parametrize(
    ("what", "served"),
    [
        ({"group_policy": "isolate"}, {("card1", "card2"), ("card2", "card1")}),
        ({"same_subtree": (("a", "b"),)}, {("card2", "card2")}),
        ({"groups": (gpu("a", required=("CUSTOM_RED",)), gpu("b"))}, {("card1", "card2")}),
        (
            {"groups": (gpu("a", forbidden=frozenset({"CUSTOM_RED"})), gpu("b"))},
            {("card2", "card1"), ("card2", "card2")},
        ),
        (
            {"groups": (gpu("a", required_any=(frozenset({"CUSTOM_RED", "CUSTOM_GREEN"}),)), gpu("b"))},
            {("card1", "card2")},
        ),
    ],
    ids=["isolated", "below one another", "with a trait", "without a trait", "with any of two"],
)
def test_what_is_said_of_groups_leaves_only_some_ways(what: dict[str, Any], served: set[tuple[str, str]]) -> None:
    one = ResourceRequest(**{"own": {"VCPU": 1}, "groups": (gpu("a"), gpu("b")), **what})
    told = all_assignments(Index(HOST, Random(0)), one, [ROOT], 10)[ROOT]
    assert not isinstance(told, Shortfall)
    assert {(way.served["a"], way.served["b"]) for way in told} == served


def test_no_more_ways_than_are_asked_for() -> None:
    one = ResourceRequest(own={}, groups=(gpu("a"), gpu("b")))
    assert len(all_assignments(Index(HOST, Random(0)), one, [ROOT], 2)[ROOT]) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "shortfall"),
    [
        (ResourceRequest(own={"VCPU": 4}), Shortfall(words="no room for 4 VCPU", resource="VCPU", asked=4, free=3)),
        (
            ResourceRequest(own={"VCPU": 9}),
            Shortfall(words="9 VCPU is more than the maximum for one server there", resource="VCPU", asked=9, free=3),
        ),
        (
            ResourceRequest(own={"PCPU": 3}),
            Shortfall(words="3 PCPU is more than the maximum for one server there", resource="PCPU", asked=3, free=2),
        ),
        (ResourceRequest(own={"FPGA": 1}), Shortfall(words="it has no FPGA", resource="FPGA", asked=1, free=0)),
        (
            ResourceRequest(own={"CUSTOM_BLOCK": 3}),
            Shortfall(
                words="CUSTOM_BLOCK cannot be allocated there in amounts of 3", resource="CUSTOM_BLOCK", asked=3, free=8
            ),
        ),
        (
            ResourceRequest(own={"VCPU": 1}, required=("CUSTOM_NVME",)),
            Shortfall(words="it lacks the trait CUSTOM_NVME"),
        ),
        (
            ResourceRequest(own={"VCPU": 1}, required_any=(frozenset({"CUSTOM_B", "CUSTOM_A"}),)),
            Shortfall(words="it has none of the traits CUSTOM_A, CUSTOM_B"),
        ),
        (
            ResourceRequest(own={"VCPU": 1}, root_required=("CUSTOM_RED",)),
            Shortfall(words="it lacks the trait CUSTOM_RED"),
        ),
        (ResourceRequest(own={"VCPU": 1}, root_forbidden=SSD), Shortfall(words="it has the trait CUSTOM_SSD")),
        (
            ResourceRequest(own={"VCPU": 1}, member_of=(frozenset({"west"}),)),
            Shortfall(words="it is in none of the aggregates that are asked for"),
        ),
        (
            ResourceRequest(own={"VCPU": 1}, not_member_of=frozenset({"east"})),
            Shortfall(words="it is in an aggregate that is ruled out"),
        ),
        (
            ResourceRequest(own={}, member_of=(frozenset({"west"}),), groups=(gpu("a"),)),
            Shortfall(words="it is in none of the aggregates that are asked for"),
        ),
        (
            ResourceRequest(own={}, not_member_of=frozenset({"east"}), groups=(gpu("a"),)),
            Shortfall(words="it is in an aggregate that is ruled out"),
        ),
        (
            ResourceRequest(own={}, groups=(gpu("a", required=("CUSTOM_GREEN",)),)),
            Shortfall(words="no device with CUSTOM_GREEN"),
        ),
        (
            ResourceRequest(own={}, groups=(gpu("a", 2, required=("CUSTOM_RED",)),)),
            Shortfall(words="no room for 2 VGPU on a device with CUSTOM_RED", resource="VGPU", asked=2, free=1),
        ),
        (
            ResourceRequest(own={}, groups=(gpu("a", 4),)),
            Shortfall(words="no room for 4 VGPU", resource="VGPU", asked=4, free=3),
        ),
        (
            ResourceRequest(own={}, groups=(Group(id="a", resources={"VGPU": 1, "VCPU": 1}),)),
            Shortfall(words="no room for 1 VGPU and 1 VCPU on one device"),
        ),
        (
            ResourceRequest(own={}, groups=(gpu("a", member_of=(frozenset({"east"}),)),)),
            Shortfall(words="it has no VGPU", resource="VGPU", asked=1, free=0),
        ),
        (
            ResourceRequest(own={}, groups=(gpu("a", 2), gpu("b", 2))),
            Shortfall(words="not enough room for all that is asked for together"),
        ),
        (
            ResourceRequest(own={}, groups=(gpu("a"), gpu("b"), gpu("c")), group_policy="isolate"),
            Shortfall(words="not enough room for all that is asked for together, each group on a device of its own"),
        ),
    ],
    ids=lambda one: one.words if isinstance(one, Shortfall) else "",
)
def test_what_is_lacking_is_named_with_what_was_asked_and_is_free(what: ResourceRequest, shortfall: Shortfall) -> None:
    assert replace(lacks(what), suggestion=None) == shortfall


@pytest.mark.parametrize(
    ("what", "suggestion"),
    [
        (ResourceRequest(own={"VCPU": 4}), "1 VCPU more free there, or a flavor with at most 3 VCPU"),
        (ResourceRequest(own={"VCPU": 9}), "a flavor with at most 8 VCPU"),
        (ResourceRequest(own={"FPGA": 1}), "an inventory of 1 FPGA"),
        (
            ResourceRequest(own={"CUSTOM_BLOCK": 3}),
            "an amount of CUSTOM_BLOCK that can be allocated: 4 to 8 in steps of 4",
        ),
        (ResourceRequest(own={"VCPU": 1}, required=("CUSTOM_NVME",)), "the trait CUSTOM_NVME"),
        (ResourceRequest(own={"VCPU": 1}, required=("HW_CPU_X86_AVX2",)), None),
        (ResourceRequest(own={"VCPU": 1}, root_forbidden=SSD), "the trait CUSTOM_SSD taken from it"),
        (ResourceRequest(own={"VCPU": 1}, member_of=(frozenset({"west"}),)), None),
        (ResourceRequest(own={}, groups=(gpu("a", required=("CUSTOM_GREEN",)),)), "a device with CUSTOM_GREEN"),
        (
            ResourceRequest(own={}, groups=(gpu("a", 4),)),
            "1 VGPU more free there",
        ),  # no word of flavors: a port may ask for it
        (ResourceRequest(own={}, groups=(gpu("a", 5),)), "an inventory of 5 VGPU on one device"),
        (
            ResourceRequest(own={}, groups=(gpu("a", 2, required=("CUSTOM_RED",)),)),
            "1 VGPU more free on a device with CUSTOM_RED",
        ),
        (
            ResourceRequest(own={}, groups=(gpu("a", 9, required=("CUSTOM_RED",)),)),
            "an inventory of 9 VGPU on a device with CUSTOM_RED",
        ),
        (
            ResourceRequest(own={}, groups=(Group(id="a", resources={"VGPU": 1, "VCPU": 1}),)),
            "1 VGPU and 1 VCPU free on one device",
        ),
        (
            ResourceRequest(own={"VCPU": 4}, groups=(gpu("a", required=("CUSTOM_GREEN",)),)),
            "1 VCPU more free there, or a flavor with at most 3 VCPU; and with a device with CUSTOM_GREEN",
        ),
        (ResourceRequest(own={"VCPU": 4}, required=("HW_CPU_X86_AVX2",)), None),
        (
            ResourceRequest(own={}, groups=(gpu("a"), gpu("b"), gpu("c")), group_policy="isolate"),
            "another device free there, or a flavor with group_policy=none",
        ),
        (
            ResourceRequest(own={"VCPU": 4}, groups=(gpu("a", 2), gpu("b", 2))),
            "1 VCPU more free there, or a flavor with at most 3 VCPU; and with more of what several parts of the"
            " request take free there",
        ),
        (
            ResourceRequest(own={"VCPU": 4}, groups=(gpu("a", 2), gpu("b", 1))),
            "1 VCPU more free there, or a flavor with at most 3 VCPU",
        ),
        (
            ResourceRequest(own={}, groups=(gpu("a", 2), gpu("b", 2))),
            "more of what several parts of the request take free there",
        ),
    ],
)
def test_what_would_repair_it_is_said_of_all_that_is_lacking(what: ResourceRequest, suggestion: str | None) -> None:
    assert lacks(what).suggestion == suggestion


def test_one_provider_alone_is_looked_at_too() -> None:
    assert lacks(ResourceRequest(own={"VCPU": 4}), HOST[:1]).words == "no room for 4 VCPU"
    assert lacks(ResourceRequest(own={"VCPU": 1}, forbidden=SSD), HOST[:1]).words == "it has the trait CUSTOM_SSD"
    [way] = all_assignments(
        Index(HOST[:1], Random(0)), ResourceRequest(own={"VCPU": 1}, required=("CUSTOM_SSD",)), [ROOT], 4
    )[ROOT]  # type: ignore[misc]
    assert way == Assignment(parts={ROOT: {"VCPU": 1}}, served={}, served_by={})
