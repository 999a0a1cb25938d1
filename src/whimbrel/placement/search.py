"""Finding providers: which of them fit a filter, and where a request could be placed. Pure: nodes in, answers out.

Law: nothing here changes anything, and what is found is a hint: the claim checks again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Literal, Protocol

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.provider import Node

SHARING = "MISC_SHARES_VIA_AGGREGATE"
"""The trait of a provider that gives to all trees with which it has an aggregate in common."""

UNNAMED = ""
"""The suffix of the group that several providers may serve together; each other group is served by one."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider, or the providers of a candidate together, must have and be."""

    resources: Mapping[str, int] = {}
    required: Sequence[frozenset[str]] = ()  # of each set one trait must be there
    forbidden: frozenset[str] = frozenset()
    member_of: Sequence[frozenset[str]] = ()  # of each set one aggregate
    not_member_of: frozenset[str] = frozenset()
    in_tree: ProviderId | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What candidates are sought for.

    nested: one tree may give parts from several of its providers. limit None: all candidates.
    """

    groups: Mapping[str, Wanted]  # by suffix
    group_policy: Literal["none", "isolate"] = "none"
    same_subtree: Sequence[frozenset[str]] = ()  # of each set of suffixes one provider is above all the others
    root_required: Sequence[frozenset[str]] = ()  # of each set the root of the tree has one trait
    root_forbidden: frozenset[str] = frozenset()
    nested: bool = True
    limit: int | None = None


class Candidate(msgspec.Struct, frozen=True):
    """One way to place a request: what is taken from which provider."""

    parts: Mapping[ProviderId, Mapping[str, int]]


class Woods(Protocol):
    """All that the search asks about providers: answered by a Forest, or by an index of many more of them."""

    @property
    def nodes(self) -> Mapping[ProviderId, Node]: ...

    def tree(self, root: ProviderId) -> Sequence[Node]:
        """List the providers of a tree by its root."""
        ...

    def tree_of(self, uuid: ProviderId) -> Sequence[Node]:
        """List the whole tree that a provider is in; nothing where there is no such provider."""
        ...

    def roots(self, request: Request) -> Iterable[ProviderId]:
        """Yield the roots of trees to look at, in that order: all that hold a candidate, others do no harm."""
        ...

    def sharing(self) -> Sequence[Node]:
        """List the providers that share what they have: those with the trait SHARING."""
        ...


class Forest:
    """All providers, by uuid and by tree: the plain Woods."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.provider.uuid: node for node in nodes}
        self.trees: dict[ProviderId, list[Node]] = {}
        for node in self.nodes.values():
            self.trees.setdefault(node.provider.root, []).append(node)

    def tree(self, root: ProviderId) -> list[Node]:
        return self.trees[root]

    def tree_of(self, uuid: ProviderId) -> list[Node]:
        node = self.nodes.get(uuid)
        return self.trees[node.provider.root] if node else []

    def roots(self, request: Request) -> Iterable[ProviderId]:
        return self.trees

    def sharing(self) -> list[Node]:
        return [node for node in self.nodes.values() if SHARING in node.traits]

    def is_member(self, node: Node, wanted: Wanted, *, with_root: bool) -> bool:
        """Tell whether a provider is in the aggregates; with_root: those of its root are its own too."""
        aggregates = node.aggregates
        if with_root:
            aggregates = aggregates | self.nodes[node.provider.root].aggregates
        return aggregates.isdisjoint(wanted.not_member_of) and all(aggregates & some for some in wanted.member_of)


def _has_traits(traits: frozenset[str], wanted: Wanted) -> bool:
    return traits.isdisjoint(wanted.forbidden) and all(traits & some for some in wanted.required)


def _fits(node: Node, name: str, amount: int) -> bool:
    stock = node.stocks.get(name)
    return stock is not None and stock.fits(amount)


def matching(forest: Forest, wanted: Wanted) -> Iterator[Node]:
    """Yield the providers of which each alone has all that is wanted."""
    nodes = forest.nodes.values() if wanted.in_tree is None else forest.tree_of(wanted.in_tree)
    for node in nodes:
        if (
            all(_fits(node, name, amount) for name, amount in wanted.resources.items())
            and _has_traits(node.traits, wanted)
            and forest.is_member(node, wanted, with_root=False)
        ):
            yield node


def candidates(forest: Forest, wanted: Wanted, *, nested: bool, limit: int | None) -> list[Candidate]:
    """List where the request could be placed. nested: several providers of one tree may give a part each."""
    trees = forest.trees.values() if wanted.in_tree is None else [forest.tree_of(wanted.in_tree)]
    found = (candidate for tree in trees for candidate in _of_tree(forest, tree, wanted, nested))
    return list(islice(found, limit))


def _of_tree(forest: Forest, tree: Sequence[Node], wanted: Wanted, nested: bool) -> Iterator[Candidate]:
    able = [
        node
        for node in tree
        if node.traits.isdisjoint(wanted.forbidden) and forest.is_member(node, wanted, with_root=nested)
    ]
    if not nested:
        whole = [node for node in able if all(_fits(node, *want) for want in wanted.resources.items())]
        ways: Iterable[tuple[Node, ...]] = ((node,) * len(wanted.resources) for node in whole)
    else:
        ways = product(*([node for node in able if _fits(node, *want)] for want in wanted.resources.items()))
    for way in ways:
        if _has_traits(frozenset().union(*(node.traits for node in way)), wanted):
            yield _candidate(way, wanted)


def _candidate(way: Sequence[Node], wanted: Wanted) -> Candidate:
    parts: dict[ProviderId, dict[str, int]] = {}
    for node, (name, amount) in zip(way, wanted.resources.items(), strict=True):
        parts.setdefault(node.provider.uuid, {})[name] = amount
    return Candidate(parts)
