"""The index of all providers finds the very candidates that are found by looking at each tree."""

from random import Random
from typing import Any

import msgspec
import pytest

from tests.depth import one_in
from tests.unit.placement.plain_index import NodeIndex
from whimbrel.domain.ids import ProviderId
from whimbrel.placement import tree_search
from whimbrel.placement.candidates import candidates
from whimbrel.placement.index import Index
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Node, Provider
from whimbrel.placement.search import SHARING, Request, Wanted
from whimbrel.placement.tree_search import Candidate
from whimbrel.ports.placement.placement import Inventory

CLASSES = ("VCPU", "DISK_GB", "VF")
TRAITS = ("T1", "T2", "T3", SHARING)
AGGREGATES = ("a", "b")


class Drawn:
    """Providers and requests that a seed makes up."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def some(self, names: tuple[str, ...], rng: float = 0.4) -> frozenset[str]:
        return frozenset(name for name in names if self.random.random() < rng)

    def nodes(self, count: int) -> list[Node]:
        nodes: list[Node] = []
        for number in range(count):
            parent = self.random.choice(nodes) if nodes and self.random.random() < 0.6 else None
            uuid = ProviderId(f"p{number}")
            provider = Provider(
                uuid=uuid,
                name=uuid,
                generation=0,
                parent=parent.provider.uuid if parent else None,
                root=parent.provider.root if parent else uuid,
            )
            nodes.append(self.node(provider))
        return nodes

    def node(self, provider: Provider) -> Node:
        stocks = {name: self.stock() for name in sorted(self.some(CLASSES, 0.6))}
        traits = self.some(TRAITS[:3]) | self.some(TRAITS[3:], 0.1)
        return Node(provider=provider, stocks=stocks, traits=traits, aggregates=self.some(AGGREGATES))

    def stock(self) -> Stock:
        draw = self.random.randint
        inventory = Inventory(
            total=draw(2, 8), reserved=draw(0, 1), min_unit=draw(1, 2), max_unit=draw(2, 8), step_size=draw(1, 2)
        )
        return Stock(inventory, draw(0, 4))

    def wanted(self, nodes: list[Node]) -> Wanted:
        names = self.some(CLASSES, 0.5) or {"VCPU"}
        return Wanted(
            resources={name: self.random.randint(1, 4) for name in sorted(names)},
            required=[self.some(TRAITS[:3]) or frozenset(("T1",))] if self.random.random() < 0.4 else [],
            forbidden=self.some(TRAITS[:3], 0.1),
            member_of=[self.some(AGGREGATES) or frozenset("a")] if self.random.random() < 0.3 else [],
            not_member_of=self.some(AGGREGATES, 0.1),
            in_tree=self.random.choice(nodes).provider.uuid if nodes and self.random.random() < 0.1 else None,
        )

    def request(self, nodes: list[Node]) -> Request:
        suffixes = self.random.choice(([""], [""], ["", "_A"], ["_A", "_B"]))
        groups = {suffix: self.wanted(nodes) for suffix in suffixes}
        subtree = self.random.random() < 0.3 and suffixes == ["_A", "_B"]
        return Request(
            groups=groups,
            group_policy=self.random.choice(("none", "isolate")),
            same_subtree=[frozenset(suffixes)] if subtree else [],
            root_required=[frozenset(("T1",))] if self.random.random() < 0.2 else [],
            root_forbidden=self.some(("T2",), 0.1),
            root_member_of=[frozenset("a")] if self.random.random() < 0.1 else [],
            root_not_member_of=self.some(("b",), 0.1),
            nested=self.random.random() < 0.8,
        )


def found(candidates_found: list[Candidate]) -> set[tuple[object, ...]]:
    return {
        (
            frozenset((uuid, frozenset(given.items())) for uuid, given in candidate.parts.items()),
            frozenset((suffix, frozenset(uuids)) for suffix, uuids in candidate.mappings.items()),
        )
        for candidate in candidates_found
    }


@pytest.fixture(params=["one by one", "at once"])
def looks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trees be searched one by one, which is done with few, and all at once, as far as that can be."""
    if request.param == "at once":
        monkeypatch.setattr(tree_search, "FEW", 0)


@pytest.mark.usefixtures("looks")
@pytest.mark.parametrize("seed", one_in(4, range(60)))
def test_it_finds_what_a_look_at_every_tree_finds(seed: int) -> None:
    drawn = Drawn(seed)
    nodes = drawn.nodes(drawn.random.randint(0, 12))
    index = Index(nodes, Random(seed))
    for _ in range(8):
        request = drawn.request(nodes)
        assert found(candidates(index, request)) == found(candidates(NodeIndex(nodes), request))


@pytest.mark.usefixtures("looks")
@pytest.mark.parametrize("seed", one_in(4, range(30)))
def test_it_keeps_up_with_what_changes(seed: int) -> None:
    """Providers come, change, move to other trees and go; more come than there was room for."""
    drawn = Drawn(seed)
    index = Index((), Random(seed))
    before: list[Node] = []
    for _ in range(6):
        now = drawn.nodes(drawn.random.randint(0, 100))
        index.apply({node.provider.uuid for node in before}, now)
        assert index.nodes == NodeIndex(now).nodes
        request = drawn.request(now)
        assert found(candidates(index, request)) == found(candidates(NodeIndex(now), request))
        before = now


def host(number: int, cards: int) -> list[Node]:
    """A host with so many cards below it."""
    root = ProviderId(f"h{number}")
    uuids = [root, *(ProviderId(f"h{number}c{card}") for card in range(cards))]
    return [
        Node(
            provider=Provider(
                uuid=uuid, name=uuid, generation=0, parent=None if uuid == root else root, root=root
            ),
            stocks={"VCPU" if uuid == root else "VF": Stock(Inventory(total=8), 0)},
            traits=frozenset(["T1"] if uuid == root else ["T2"]),
            aggregates=frozenset(),
        )
        for uuid in uuids
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "is_known"),
    [
        ({}, True),
        ({"same_subtree": [frozenset(("_A", "_B"))]}, True),
        ({"same_subtree": [frozenset(("_B", "_C"))]}, True),
        ({"group_policy": "isolate"}, False),
        ({"nested": False}, False),
    ],
    ids=["as it is", "below its root", "one card", "isolated", "flat"],
)
def test_who_is_alone_in_what_he_gives_needs_no_search(changed: dict[str, Any], is_known: bool) -> None:
    index = Index([*host(1, 1), *host(2, 2), *host(3, 0)], Random(0))
    cpus, card = {"VCPU": 2}, {"VF": 1}
    groups = {
        "_A": Wanted(resources=cpus, required=[frozenset(["T1"])]),
        "_B": Wanted(resources=card),
        "_C": Wanted(resources={"VF": 2}),
    }
    request = msgspec.structs.replace(Request(groups=groups), **changed)
    unique_fits = index.unique_fits(request, [("_A", cpus), ("_B", card), ("_C", {"VF": 2})])
    assert unique_fits(ProviderId("h1")) == (["h1", "h1c0", "h1c0"] if is_known else None)
    assert unique_fits(ProviderId("h2")) is unique_fits(ProviderId("h3")) is None


@pytest.mark.parametrize(("amount", "fits"), [(2**31 - 2, True), (2**31, False), (10**19, False)])
def test_amounts_and_rooms_may_be_larger_than_a_column_holds(amount: int, fits: bool) -> None:
    inventory = Inventory(total=2**31 - 1, step_size=2, allocation_ratio=3e38)
    provider = Provider(uuid=ProviderId("h"), name="h", generation=0, parent=None, root=ProviderId("h"))
    stocks = {"VCPU": Stock(inventory, used=2**40)}
    nodes = [Node(provider=provider, stocks=stocks, traits=frozenset(), aggregates=frozenset())]
    request = Request(groups={"": Wanted(resources={"VCPU": amount})})
    assert bool(candidates(NodeIndex(nodes), request)) is fits
    assert bool(candidates(Index(nodes, Random(0)), request)) is fits


def test_each_request_begins_at_another_tree_and_a_seed_repeats_it() -> None:
    hosts = [
        Node(
            provider=Provider(uuid=ProviderId(name), name=name, generation=0, parent=None, root=ProviderId(name)),
            stocks={"VCPU": Stock(Inventory(total=8), 0)},
            traits=frozenset(),
            aggregates=frozenset(),
        )
        for name in (f"h{number}" for number in range(50))
    ]
    request = Request(groups={"": Wanted(resources={"VCPU": 1})}, limit=1)

    def firsts(seed: int) -> list[str]:
        index = Index(hosts, Random(seed))
        return [next(iter(candidates(index, request)[0].parts)) for _ in range(100)]

    assert firsts(7) == firsts(7) != firsts(8)
    assert len(set(firsts(7))) > 30
