"""Rooms of hosts against plain arithmetic over their providers, while providers come, change and go."""

from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.depth import one_in
from tests.unit.placement.plain_index import NodeIndex
from tests.unit.placement.test_index import AGGREGATES, CLASSES, TRAITS, Drawn
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.assignments import request_of
from whimbrel.placement.candidates import candidates
from whimbrel.placement.capacity import IndexCapacity
from whimbrel.placement.index import Index
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Node
from whimbrel.placement.search import SHARING
from whimbrel.ports.placement.assignments import Group, ResourceRequest
from whimbrel.ports.placement.placement import Inventory

HOSTS = tuple(ProviderId(f"p{number}") for number in range(30))
"""Some of which are there, some below others, and some are not."""


def all_of(capacity: IndexCapacity) -> dict[str, list[Any]]:
    told: dict[str, Any] = {"known": capacity.known}
    for name in (*CLASSES, "CUSTOM_NOBODY_HAS"):
        told |= {f"free {name}": capacity.free(name), f"used {name}": capacity.used(name)}
        told |= {f"capacity {name}": capacity.capacity(name), f"offers {name}": np.array([capacity.offers(name)])}
        told |= {f"largest {name}": capacity.largest(name) * capacity.known, f"spare {name}": spare(capacity, name)}
        for amount in (1, 2, 3, 2**40):
            told[f"fits {amount} {name}"] = capacity.fits(name, amount) & capacity.known
            told[f"most free {amount} {name}"] = capacity.most_free(name, amount).clip(0) * capacity.known
    for name in (*TRAITS, "CUSTOM_NOBODY_HAS"):
        told |= {
            f"has {name}": capacity.has_trait(name),
            f"tree has {name}": capacity.tree_has_trait(name) & capacity.known,
        }
    told |= {f"in {uuid}": capacity.in_aggregate(uuid) for uuid in (*AGGREGATES, "nobody's")}
    return {what: column.tolist() for what, column in told.items()}


def spare(capacity: IndexCapacity, name: str) -> Any:
    return np.where(capacity.known, np.maximum(capacity.spare(name), 0), 0)


def plainly(nodes: list[Node]) -> dict[str, list[Any]]:
    found = {node.provider.uuid: node for node in nodes}
    hosts = [found.get(uuid) for uuid in HOSTS]
    told: dict[str, list[Any]] = {"known": [node is not None and node.provider.parent is None for node in hosts]}
    for name in (*CLASSES, "CUSTOM_NOBODY_HAS"):
        stocks = [node.stocks.get(name) if node else None for node in hosts]
        told[f"free {name}"] = [max(-1, one.capacity - one.used) if one else -1 for one in stocks]
        told[f"used {name}"] = [one.used if one else 0 for one in stocks]
        told[f"capacity {name}"] = [one.capacity if one else 0 for one in stocks]
        near = [[one.stocks[name] for one in beside(node, nodes) if name in one.stocks] for node in hosts]
        told[f"offers {name}"] = [any(one.capacity for some in near for one in some)]
        told[f"largest {name}"] = [most(min(one.inventory.max_unit, one.capacity) for one in some) for some in near]
        told[f"spare {name}"] = [
            most(min(one.inventory.max_unit, one.capacity - one.used) for one in some) for some in near
        ]
        for amount in (1, 2, 3, 2**40):
            told[f"fits {amount} {name}"] = [any(one.fits(amount) for one in some) for some in near]
            told[f"most free {amount} {name}"] = [
                most(one.capacity - one.used for one in some if one.fits(amount)) for some in near
            ]
    for name in (*TRAITS, "CUSTOM_NOBODY_HAS"):
        told[f"has {name}"] = [node is not None and name in node.traits for node in hosts]
        told[f"tree has {name}"] = [any(name in one.traits for one in beside(node, nodes)) for node in hosts]
    for uuid in (*AGGREGATES, "nobody's"):
        told[f"in {uuid}"] = [node is not None and uuid in node.aggregates for node in hosts]
    return told


def beside(root: Node | None, nodes: list[Node]) -> list[Node]:
    """List the providers of the tree of a root, and those that share with it."""
    if root is None or root.provider.parent is not None:
        return []
    tree = [node for node in nodes if node.provider.root == root.provider.uuid]
    near = frozenset[str]().union(*(node.aggregates for node in tree))
    return tree + [node for node in nodes if SHARING in node.traits and node.aggregates & near]


def most(amounts: Iterable[int]) -> int:
    return max((0, *amounts))


def resources(drawn: Drawn) -> ResourceRequest:
    def what() -> dict[str, Any]:
        return {
            "required": tuple(sorted(drawn.some(TRAITS[:3], 0.2))),
            "required_any": (drawn.some(TRAITS[:3]) or frozenset({"T2"}),) if drawn.random.random() < 0.2 else (),
            "forbidden": drawn.some(TRAITS[:3], 0.1),
            "member_of": (drawn.some(AGGREGATES) or frozenset("a"),) if drawn.random.random() < 0.2 else (),
            "not_member_of": drawn.some(AGGREGATES, 0.1),
        }

    def amounts() -> dict[str, int]:
        return {name: drawn.random.randint(1, 3) for name in sorted(drawn.some(CLASSES, 0.4) or {"VCPU"})}

    groups = tuple(Group(id=name, resources=amounts(), **what()) for name in sorted(drawn.some(("a", "b"), 0.3)))
    return ResourceRequest(
        own=amounts() if not groups or drawn.random.random() < 0.7 else {},
        **what(),
        root_required=tuple(drawn.some(("T1",), 0.1)),
        root_forbidden=drawn.some(("T2",), 0.1),
        groups=groups,
        group_policy=drawn.random.choice(("none", "isolate")),
        same_subtree=(("a", "b"),) if len(groups) == 2 and drawn.random.random() < 0.3 else (),
    )


@pytest.mark.parametrize("seed", one_in(4, range(40)))
def test_columns_tell_what_providers_have_while_these_change(seed: int) -> None:
    drawn = Drawn(seed)
    index = Index((), Random(seed))
    capacity = IndexCapacity(index, HOSTS)
    before: list[Node] = []
    for _ in range(6):
        now = drawn.nodes(drawn.random.randint(0, 30))
        now = drawn.random.sample(now, len(now))  # rows are given in another order each time
        index.apply({node.provider.uuid for node in before}, now)
        assert all_of(capacity) == all_of(IndexCapacity(index, list(HOSTS))) == plainly(now)
        before = now


@pytest.mark.parametrize("seed", one_in(4, range(60)))
def test_where_a_request_could_be_had_and_where_the_root_alone_gives_it(seed: int) -> None:
    drawn = Drawn(seed)
    nodes = drawn.nodes(drawn.random.randint(1, 20))
    capacity = IndexCapacity(Index(nodes, Random(seed)), HOSTS)
    for _ in range(10):
        one = resources(drawn)
        found = candidates(NodeIndex(nodes), request_of(one))
        has_way = {nodes_by_root(nodes)[uuid] for candidate in found for uuid in candidate.parts}
        could = set(np.array(HOSTS)[capacity.could_hold(one)].tolist())
        alone = {ProviderId(root) for root in np.array(HOSTS)[capacity.simple(one)].tolist()}
        roots = {node.provider.uuid for node in nodes if node.provider.parent is None}
        whole = [candidate.parts for candidate in found if not one.groups]
        serving = {root for root in roots if {root: one.own} in whole}
        assert alone <= could
        if any(SHARING in node.traits for node in nodes):  # who shares serves other trees too, by other rules
            assert alone <= serving
        else:
            assert has_way <= could
            assert alone == serving


def nodes_by_root(nodes: list[Node]) -> dict[ProviderId, ProviderId]:
    return {node.provider.uuid: node.provider.root for node in nodes}


def test_traits_of_a_request_without_amounts_are_the_hosts() -> None:
    drawn = Drawn(1)
    root, *_ = [node for node in drawn.nodes(20) if node.provider.parent is None]
    index = Index([replace(root, traits=frozenset({"T1"}))], Random(0))
    capacity = IndexCapacity(index, (root.provider.uuid,))
    assert capacity.could_hold(ResourceRequest(own={}, required=("T1",))).tolist() == [True]
    assert capacity.could_hold(ResourceRequest(own={}, required=("T2",))).tolist() == [False]
    assert capacity.could_hold(ResourceRequest(own={}, forbidden=frozenset({"T1"}))).tolist() == [False]


def test_the_state_of_one_is_all_that_is_known_of_it() -> None:
    [node] = Drawn(3).nodes(1)
    stock = Stock(Inventory(total=8, reserved=1, max_unit=3, allocation_ratio=2.0), 5)
    capacity = IndexCapacity(Index([replace(node, stocks={"VCPU": stock})], Random(0)), (node.provider.uuid,))
    state = capacity.state(0)
    assert (state.id, state.free, state.capacity) == (node.provider.uuid, {"VCPU": 9}, {"VCPU": 14})
    assert (state.max_unit, state.traits, state.aggregates) == ({"VCPU": 3}, node.traits, node.aggregates)
