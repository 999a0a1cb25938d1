"""Finding providers: the words in which one asks, where one looks, and which providers fit. Pure: nodes in, nodes out.

Law: nothing here changes anything, and what is found is a hint: the claim checks again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
    root_member_of: Sequence[frozenset[str]] = ()  # of each set the root of the tree is in one aggregate
    root_not_member_of: frozenset[str] = frozenset()
    nested: bool = True
    limit: int | None = None


class ProviderIndex(Protocol):
    """All that the search asks about providers: answered by an index of them."""

    @property
    def nodes(self) -> Mapping[ProviderId, Node]: ...

    @property
    def version(self) -> int:
        """Return a number that changes whenever a provider does."""
        ...

    def tree(self, root: ProviderId) -> Collection[Node]:
        """Give the providers of a tree by its root."""
        ...

    def tree_of(self, uuid: ProviderId) -> Collection[Node]:
        """Give the whole tree that a provider is in; nothing where there is no such provider."""
        ...

    def roots(self, request: Request) -> Iterable[ProviderId]:
        """Yield the roots of trees to look at, in that order: all that hold a candidate, others do no harm.

        Where nobody shares, a tree of one provider is among them only if that one can serve each group by itself.
        """
        ...

    def still_roots(self, roots: Sequence[ProviderId], request: Request) -> list[ProviderId]:
        """Return those of these former roots of trees to look at that still are."""
        ...

    def sharing(self) -> Sequence[Node]:
        """List the providers that share what they have: those with the trait SHARING."""
        ...

    def unique_fits(
        self, request: Request, cut: Sequence[tuple[str, Mapping[str, int]]]
    ) -> Callable[[ProviderId], Sequence[ProviderId] | None]:
        """Give what tells of a root who in its tree gives the parts of a request, if there is just one way; None: look.

        cut: the parts, by suffix, of which no two take the same class; and nobody shares what could help.
        """
        ...


def has_traits(traits: frozenset[str], wanted: Wanted) -> bool:
    return _of_each(traits, wanted.required) and traits.isdisjoint(wanted.forbidden)


def is_member(aggregates: frozenset[str], wanted: Wanted) -> bool:
    return _of_each(aggregates, wanted.member_of) and aggregates.isdisjoint(wanted.not_member_of)


def _of_each(names: frozenset[str], required: Sequence[frozenset[str]]) -> bool:
    return not required or all(names & some for some in required)


def fits(node: Node, resources: Mapping[str, int]) -> bool:
    """Tell whether a provider could give all of this at once."""
    for name, amount in resources.items():
        stock = node.stocks.get(name)
        if stock is None or not stock.fits(amount):
            return False
    return True


def serves(node: Node, request: Request) -> bool:
    """Tell whether one provider could serve each of the groups by itself."""
    return all(
        fits(node, wanted.resources)
        and has_traits(node.traits, wanted)
        and is_member(node.aggregates, wanted)
        and wanted.in_tree in (None, node.provider.uuid)
        for wanted in request.groups.values()
    )


def matching(index: ProviderIndex, wanted: Wanted) -> Iterator[Node]:
    """Yield the providers of which each alone has all that is wanted."""
    nodes = index.nodes.values() if wanted.in_tree is None else index.tree_of(wanted.in_tree)
    for node in nodes:
        if fits(node, wanted.resources) and has_traits(node.traits, wanted) and is_member(node.aggregates, wanted):
            yield node
