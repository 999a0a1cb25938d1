"""Candidates of requests with groups: against a search that tries everything and asks the definition."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.unit.placement.plain_index import NodeIndex
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.candidates import candidates
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Node, Provider
from whimbrel.placement.search import SHARING, Request, Wanted
from whimbrel.placement.tree_search import Candidate
from whimbrel.ports.placement.placement import Inventory

Key = tuple[frozenset[tuple[str, str, int]], frozenset[tuple[str, frozenset[str]]]]


def key(found: Candidate) -> Key:
    taken = ((uuid, name, amount) for uuid, given in found.parts.items() for name, amount in given.items())
    return frozenset(taken), frozenset((suffix, frozenset(uuids)) for suffix, uuids in found.mappings.items())


# The slow search


def everything(provider_index: NodeIndex, request: Request) -> set[Key]:
    """Try every provider for every class of every group, beside every tree, and keep what the definition allows."""
    slots = [
        (suffix, name, amount)
        for suffix, wanted in request.groups.items()
        for name, amount in (wanted.resources.items() or [("", 0)])
    ]
    found = set()
    for root in provider_index.trees:
        near = [node for node in provider_index.nodes.values() if is_near(provider_index, root, node)]
        for way in product(near, repeat=len(slots)):
            if allowed(provider_index, request, provider_index.nodes[root], list(zip(slots, way, strict=True))):
                found.add(as_key(slots, way))
    return found


Slot = tuple[str, str, int]


def as_key(slots: Sequence[Slot], way: Sequence[Node]) -> Key:
    taken: dict[tuple[str, str], int] = {}
    mappings: dict[str, set[str]] = {}
    for (suffix, name, amount), node in zip(slots, way, strict=True):
        mappings.setdefault(suffix, set()).add(node.provider.uuid)
        if name:
            taken[node.provider.uuid, name] = taken.get((node.provider.uuid, name), 0) + amount
    return (
        frozenset((uuid, name, amount) for (uuid, name), amount in taken.items()),
        frozenset((suffix, frozenset(uuids)) for suffix, uuids in mappings.items()),
    )


def is_near(provider_index: NodeIndex, root: ProviderId, node: Node) -> bool:
    if node.provider.root == root:
        return True
    return SHARING in node.traits and any(node.aggregates & other.aggregates for other in provider_index.trees[root])


def allowed(provider_index: NodeIndex, request: Request, top: Node, way: Sequence[tuple[Slot, Node]]) -> bool:
    of_group: dict[str, list[Node]] = {}
    taken: dict[tuple[str, str], int] = {}
    for (suffix, name, amount), node in way:
        of_group.setdefault(suffix, []).append(node)
        if name:
            if name not in node.stocks or not node.stocks[name].fits(amount):
                return False
            taken[node.provider.uuid, name] = taken.get((node.provider.uuid, name), 0) + amount
    return (
        all(
            has_room(provider_index.nodes[ProviderId(uuid)].stocks[name], amount)
            for (uuid, name), amount in taken.items()
        )
        and all(
            serves(provider_index, request.groups[suffix], suffix, nodes, top) for suffix, nodes in of_group.items()
        )
        and all(top.traits & some for some in request.root_required)
        and not top.traits & request.root_forbidden
        and all(top.aggregates & some for some in request.root_member_of)
        and not top.aggregates & request.root_not_member_of
        and (request.group_policy == "none" or differ(of_group))
        and (request.nested or one_of_each_tree([node for (_, name, _), node in way if name]))
        and all(is_subtree(provider_index, [of_group[suffix][0] for suffix in some]) for some in request.same_subtree)
    )


def has_room(stock: Stock, amount: int) -> bool:
    return stock.used + amount <= stock.capacity and amount <= stock.inventory.max_unit


def serves(provider_index: NodeIndex, wanted: Wanted, suffix: str, nodes: Sequence[Node], top: Node) -> bool:
    if suffix and len({node.provider.uuid for node in nodes}) > 1:
        return False
    traits = frozenset[str]().union(*(node.traits for node in nodes))
    if traits & wanted.forbidden or not all(traits & some for some in wanted.required):
        return False
    if wanted.in_tree is not None:
        home = provider_index.nodes[wanted.in_tree].provider.root
        if any(node.provider.root != home for node in nodes) or (not suffix and top.provider.uuid != home):
            return False
    return all(is_member(wanted, suffix, node, top) for node in nodes)


def is_member(wanted: Wanted, suffix: str, node: Node, top: Node) -> bool:
    if suffix:
        return not node.aggregates & wanted.not_member_of and all(node.aggregates & some for some in wanted.member_of)
    if (node.aggregates | top.aggregates) & wanted.not_member_of:
        return False
    sources = [node.aggregates] + ([top.aggregates] if node.provider.root == top.provider.uuid else [])
    return any(all(source & some for some in wanted.member_of) for source in sources)


def differ(of_group: Mapping[str, Sequence[Node]]) -> bool:
    named = [nodes[0].provider.uuid for suffix, nodes in of_group.items() if suffix]
    return len(set(named)) == len(named)


def one_of_each_tree(nodes: Sequence[Node]) -> bool:
    return len({node.provider.root for node in nodes}) == len({node.provider.uuid for node in nodes})


def is_subtree(provider_index: NodeIndex, nodes: Sequence[Node]) -> bool:
    return any(all(is_above(provider_index, top, node) for node in nodes) for top in nodes)


def is_above(provider_index: NodeIndex, top: Node, node: Node) -> bool:
    while node is not top:
        if node.provider.parent is None:
            return False
        node = provider_index.nodes[node.provider.parent]
    return True


# Anything that could be asked, of anything that could be there

CLASSES, TRAITS, AGGREGATES = ["VCPU", "VGPU"], ["RED", "BLUE"], ["east", "west"]


def some(names: Sequence[str]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(names), max_size=2)


def rarely(what: st.SearchStrategy[Any], nothing: Any) -> st.SearchStrategy[Any]:
    """Leave it away most times: of requests with many conditions hardly any has candidates."""
    return st.sampled_from([False, False, False, True]).flatmap(lambda there: what if there else st.just(nothing))


def any_of(names: Sequence[str]) -> st.SearchStrategy[Sequence[frozenset[str]]]:
    return rarely(st.lists(st.frozensets(st.sampled_from(names), min_size=1), min_size=1, max_size=2), [])


STOCKS = st.dictionaries(
    st.sampled_from(CLASSES),
    st.builds(
        lambda total, used, most, step: Stock(Inventory(total=total, max_unit=most, step_size=step), min(used, total)),
        st.integers(1, 8),
        st.integers(0, 2),
        st.integers(2, 8),
        st.sampled_from([1, 1, 1, 2]),
    ),
    min_size=1,
)


@st.composite
def forests(draw: st.DrawFn) -> NodeIndex:
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, 6))):
        uuid = ProviderId(f"p{number}")
        parent = draw(st.sampled_from([None, *nodes])) if nodes else None
        nodes.append(
            Node(
                provider=Provider(
                    uuid=uuid,
                    name=uuid,
                    generation=0,
                    parent=parent.provider.uuid if parent else None,
                    root=parent.provider.root if parent else uuid,
                ),
                stocks=draw(STOCKS),
                traits=draw(some([*TRAITS, SHARING])),
                aggregates=draw(some(AGGREGATES)),
            )
        )
    return NodeIndex(nodes)


def groups(*, bare: bool) -> st.SearchStrategy[Wanted]:
    return st.builds(
        Wanted,
        resources=st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 2), min_size=0 if bare else 1),
        required=any_of(TRAITS),
        forbidden=rarely(some(TRAITS), frozenset()),
        member_of=any_of(AGGREGATES),
        not_member_of=rarely(some(AGGREGATES), frozenset()),
        in_tree=rarely(st.just(ProviderId("p0")), None),
    )


@st.composite
def requests(draw: st.DrawFn) -> Request:
    unnamed = draw(st.dictionaries(st.just(""), groups(bare=False)))
    named = draw(st.dictionaries(st.sampled_from(["_A", "_B"]), groups(bare=True), min_size=0 if unnamed else 1))
    return Request(
        groups={**unnamed, **named},
        group_policy=draw(st.sampled_from(["none", "none", "isolate"])),
        same_subtree=draw(rarely(st.just([frozenset(named)]), [])) if named else (),
        root_required=draw(any_of(TRAITS)),
        root_member_of=draw(any_of(AGGREGATES)),
        root_not_member_of=draw(rarely(some(AGGREGATES), frozenset())),
        root_forbidden=draw(rarely(some(TRAITS), frozenset())),
        nested=not draw(rarely(st.just(True), False)),
    )


@settings(max_examples=examples(200))
@given(forests(), requests())
def test_finds_what_trying_everything_finds(provider_index: NodeIndex, request: Request) -> None:
    found = [key(each) for each in candidates(provider_index, request)]
    assert len(set(found)) == len(found), "the same candidate twice"
    assert set(found) == everything(provider_index, request)


# Far too much


def wide(root: str, children: int, room: int) -> Iterator[Node]:
    """Make a tree of many equal providers below one that has nothing."""
    for name in (root, *(f"{root}{number}" for number in range(children))):
        yield Node(
            provider=Provider(
                uuid=ProviderId(name),
                name=name,
                generation=0,
                parent=ProviderId(root) if name != root else None,
                root=ProviderId(root),
            ),
            stocks={"VF": Stock(Inventory(total=room), 0)} if name != root else {},
            traits=frozenset(),
            aggregates=frozenset(),
        )


def many(number: int) -> dict[str, Wanted]:
    return {str(each): Wanted(resources={"VF": 1}) for each in range(number)}


def test_more_ways_than_could_be_listed() -> None:
    provider_index = NodeIndex([node for root in "abcd" for node in wide(root, 16, room=2)])
    found = candidates(provider_index, Request(groups=many(20)))
    assert 1_000 < len(found) < 50_000
    assert len({next(iter(each.parts))[0] for each in found}) == 4, "one tree used up what was for all"


def test_a_limit_is_shared_by_the_trees() -> None:
    provider_index = NodeIndex([node for root in "abcd" for node in wide(root, 16, room=2)])
    found = candidates(provider_index, Request(groups=many(20), limit=8))
    assert sorted(next(iter(each.parts))[0] for each in found) == list("aabbccdd")


def test_what_cannot_be_is_seen_soon() -> None:
    provider_index = NodeIndex(wide("a", 16, room=1))
    assert candidates(provider_index, Request(groups=many(17))) == []
    assert candidates(provider_index, Request(groups=many(17), group_policy="isolate")) == []
    assert candidates(provider_index, Request(groups=many(16), same_subtree=[frozenset(many(16))])) == []


def test_as_many_ways_as_a_host_with_eight_devices_has() -> None:
    provider_index = NodeIndex(wide("a", 8, room=1))
    assert len(candidates(provider_index, Request(groups=many(6), group_policy="isolate"))) == 20_160
