"""Find providers: the terms of requests, the index interface, and which providers fit. Pure: nodes in, nodes out.

Invariant: nothing is changed here, and results are hints: the claim checks again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.provider import Node

SHARING = "MISC_SHARES_VIA_AGGREGATE"
"""The trait of a provider that shares with all trees with which it has an aggregate in common."""

UNNAMED = ""
"""The suffix of the group that several providers may serve together; each other group is served by one."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements on a provider, or on the providers of a candidate together."""

    resources: Mapping[str, int] = {}
    required: Sequence[frozenset[str]] = ()  # one trait of each set is required
    forbidden: frozenset[str] = frozenset()
    member_of: Sequence[frozenset[str]] = ()  # one aggregate of each set
    not_member_of: frozenset[str] = frozenset()
    in_tree: ProviderId | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request for candidates.

    nested: several providers of one tree may serve parts. limit None: all candidates.
    """

    groups: Mapping[str, Wanted]  # by suffix
    group_policy: Literal["none", "isolate"] = "none"
    same_subtree: Sequence[frozenset[str]] = ()  # in each set of suffixes, one provider is an ancestor of all others
    root_required: Sequence[frozenset[str]] = ()  # the root has one trait of each set
    root_forbidden: frozenset[str] = frozenset()
    root_member_of: Sequence[frozenset[str]] = ()  # the root is in one aggregate of each set
    root_not_member_of: frozenset[str] = frozenset()
    nested: bool = True
    limit: int | None = None


class ProviderIndex(Protocol):
    """The provider queries of the search, implemented by an index."""

    @property
    def nodes(self) -> Mapping[ProviderId, Node]: ...

    @property
    def version(self) -> int:
        """Return a number that changes whenever a provider does."""

    def tree(self, root: ProviderId) -> Collection[Node]:
        """Return the providers of a tree by its root."""

    def tree_of(self, uuid: ProviderId) -> Collection[Node]:
        """Return the whole tree of a provider, or nothing if it does not exist."""

    def roots(self, request: Request) -> Iterable[ProviderId]:
        """Yield the roots of trees to search, in order: a superset of those with candidates. Without sharing
        providers, a tree of one provider is included only if that provider can serve each group alone.
        """

    def still_roots(self, roots: Sequence[ProviderId], request: Request) -> list[ProviderId]:
        """Return those of these former roots that are still worth searching."""

    def sharing(self) -> Sequence[Node]:
        """List the sharing providers: those with the trait SHARING."""

    def unique_fits(
        self, request: Request, cut: Sequence[tuple[str, Mapping[str, int]]]
    ) -> Callable[[ProviderId], Sequence[ProviderId] | None]:
        """Return a lookup from tree root to the only possible provider of each part, or None if a search is needed.
        cut: the parts, by suffix; no two take the same class, and no sharing provider could serve one.
        """


def has_traits(traits: frozenset[str], wanted: Wanted) -> bool:
    return _of_each(traits, wanted.required) and traits.isdisjoint(wanted.forbidden)


def is_member(aggregates: frozenset[str], wanted: Wanted) -> bool:
    return _of_each(aggregates, wanted.member_of) and aggregates.isdisjoint(wanted.not_member_of)


def _of_each(names: frozenset[str], required: Sequence[frozenset[str]]) -> bool:
    return not required or all(names & some for some in required)


def fits(node: Node, resources: Mapping[str, int]) -> bool:
    """Check whether a provider can serve all of this at once."""
    for name, amount in resources.items():
        stock = node.stocks.get(name)
        if stock is None or not stock.fits(amount):
            return False
    return True


def serves(node: Node, request: Request) -> bool:
    """Check whether one provider can serve each of the groups alone."""
    return all(
        fits(node, wanted.resources)
        and has_traits(node.traits, wanted)
        and is_member(node.aggregates, wanted)
        and wanted.in_tree in (None, node.provider.uuid)
        for wanted in request.groups.values()
    )


def matching(index: ProviderIndex, wanted: Wanted) -> Iterator[Node]:
    """Yield the providers that satisfy all requirements alone."""
    nodes = index.nodes.values() if wanted.in_tree is None else index.tree_of(wanted.in_tree)
    for node in nodes:
        if fits(node, wanted.resources) and has_traits(node.traits, wanted) and is_member(node.aggregates, wanted):
            yield node
