"""The candidates of one provider tree, one after the other.

A request is cut into parts that one provider serves at once: a whole named group, or one class of the unnamed group.
For each part, the providers of the tree, and those that share with it, that can serve it alone are listed;
provider_choices.py combines them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.provider import Node
from whimbrel.placement.provider_choices import Budget, Offer, Part, choices
from whimbrel.placement.search import UNNAMED, ProviderIndex, Request, Wanted, fits, has_traits, is_member

FEW = 32
"""This many trees are searched one by one; beyond that, evaluating all of them at once is faster."""


class Candidate(msgspec.Struct, frozen=True):
    """One assignment of a request: the amounts from each provider, and the providers of each group."""

    parts: Mapping[ProviderId, Mapping[str, int]]
    mappings: Mapping[str, Sequence[ProviderId]]  # by suffix


class SearchContext:
    """A prepared request: cut into parts, with the sharing providers that can serve one of them."""

    def __init__(self, index: ProviderIndex, request: Request, budget: Budget | None = None) -> None:
        """budget: the rest of an earlier search for the same request."""
        self.index = index
        self.request = request
        self.budget = budget or Budget()
        cut = [part for suffix, wanted in request.groups.items() for part in _cut(suffix, wanted)]
        takers = Counter(name for _, resources in cut for name in resources)
        self.contested = {name for name, number in takers.items() if number > 1}  # classes that several parts take
        self.parts = [
            Part(suffix, resources, {name: resources[name] for name in resources if name in self.contested})
            for suffix, resources in cut
        ]
        self.home_of = {
            suffix: _root_of(index, wanted.in_tree) for suffix, wanted in request.groups.items() if wanted.in_tree
        }
        self.is_unsatisfiable = None in self.home_of.values()
        self.sharing = [node for node in index.sharing() if node.aggregates and self._can_serve_a_part(node)]
        self.of_root = Wanted(
            required=request.root_required,
            forbidden=request.root_forbidden,
            member_of=request.root_member_of,
            not_member_of=request.root_not_member_of,
        )
        self.takes_any_root = self.of_root == Wanted()
        self.is_plain = list(request.groups) == [UNNAMED] and not index.sharing()
        self._looked = 0
        self._unique_fits: Callable[[ProviderId], Sequence[ProviderId] | None] | None = None

    def unique_fits(self, root: ProviderId) -> Sequence[ProviderId] | None:
        """Return the providers of the parts in this tree if they are known without a search."""
        self._looked += 1
        if self._looked <= FEW or self.contested or self.sharing:
            return None
        if self._unique_fits is None:
            self._unique_fits = self.index.unique_fits(
                self.request, [(part.suffix, part.resources) for part in self.parts]
            )
        return self._unique_fits(root)

    def sharing_providers(self, root: ProviderId) -> list[Node]:
        """List the providers of other trees that share with this tree."""
        return _sharing_providers(self, self.index.tree(root), self.index.nodes[root])

    def _can_serve_a_part(self, node: Node) -> bool:
        return any(
            node.traits.isdisjoint(self.request.groups[part.suffix].forbidden) and fits(node, part.resources)
            for part in self.parts
        )


def _cut(suffix: str, wanted: Wanted) -> list[tuple[str, Mapping[str, int]]]:
    if suffix == UNNAMED:
        return [(UNNAMED, {name: amount}) for name, amount in wanted.resources.items()]
    return [(suffix, wanted.resources)]


def _root_of(index: ProviderIndex, uuid: ProviderId) -> ProviderId | None:
    node = index.nodes.get(uuid)
    return node.provider.root if node else None


def assignments_in(context: SearchContext, root: ProviderId) -> Iterator[Candidate]:
    """Yield every assignment of a request in the tree of this root and the providers that share with it."""
    tree = context.index.tree(root)
    top = context.index.nodes[root]
    if not (context.takes_any_root or _may_be_root(top, context.of_root)):
        return iter(())
    if context.is_plain and len(tree) == 1:  # the most frequent case: these roots are known to serve the unnamed group
        return iter((Candidate({root: context.request.groups[UNNAMED].resources}, {UNNAMED: (root,)}),))
    if unique_fits := context.unique_fits(root):
        return iter((_candidate(context, context.parts, unique_fits),))
    return _assignments(context, tree, top)


def _may_be_root(node: Node, wanted: Wanted) -> bool:
    return has_traits(node.traits, wanted) and is_member(node.aggregates, wanted)


def _assignments(context: SearchContext, tree: Collection[Node], top: Node) -> Iterator[Candidate]:
    offers = _offers(context, tree, top)
    if offers is None or not _enough(context, offers):
        return
    offers.sort(key=lambda offer: len(offer.nodes))  # fewest choices first: dead ends are found early
    for chosen in choices(context.index, context.request, offers, context.budget):
        yield _candidate(context, [offer.part for offer in offers], [node.provider.uuid for node in chosen])


def _offers(context: SearchContext, tree: Collection[Node], top: Node) -> list[Offer] | None:
    """List the providers that can serve each part; None: a part has none."""
    sharing_providers = _sharing_providers(context, tree, top)
    able = {suffix: _able(context, suffix, tree, sharing_providers, top) for suffix in context.request.groups}
    offers = []
    for part in context.parts:
        nodes = [node for node in able[part.suffix] if fits(node, part.resources)]
        if not nodes:
            return None
        offers.append(Offer(part, nodes))
    return offers


def _sharing_providers(context: SearchContext, tree: Collection[Node], top: Node) -> list[Node]:
    """List the providers of other trees that share with this tree."""
    if not context.sharing:
        return []
    aggregates = frozenset[str]().union(*(node.aggregates for node in tree))
    root = top.provider.root
    return [node for node in context.sharing if node.provider.root != root and node.aggregates & aggregates]


def _able(
    context: SearchContext, suffix: str, tree: Collection[Node], sharing_providers: Sequence[Node], top: Node
) -> list[Node]:
    """List the providers that may serve a group, regardless of amounts. A named group applies traits and aggregates
    to its one provider. In the unnamed group, each provider must lack the forbidden traits, and all together must
    have the required ones; a provider is in an aggregate by itself or by the root of the tree, a sharing one only
    by itself.
    """
    wanted = context.request.groups[suffix]
    home = context.home_of.get(suffix)
    if suffix != UNNAMED:
        return [
            node
            for node in (*tree, *sharing_providers)
            if home in (None, node.provider.root)
            and has_traits(node.traits, wanted)
            and is_member(node.aggregates, wanted)
        ]
    if home not in (None, top.provider.root) or not top.aggregates.isdisjoint(wanted.not_member_of):
        return []
    by_root = all(top.aggregates & some for some in wanted.member_of)
    own = [node for node in tree if _unhindered(node, wanted) and (by_root or is_member(node.aggregates, wanted))]
    if home is not None:
        return own
    return own + [
        node for node in sharing_providers if _unhindered(node, wanted) and is_member(node.aggregates, wanted)
    ]


def _unhindered(node: Node, wanted: Wanted) -> bool:
    return node.traits.isdisjoint(wanted.forbidden) and node.aggregates.isdisjoint(wanted.not_member_of)


def _enough(context: SearchContext, offers: Sequence[Offer]) -> bool:
    """Check cheaply whether the total can suffice for all parts; this avoids the worst searches."""
    if context.request.group_policy == "isolate":
        named = [offer for offer in offers if offer.part.suffix != UNNAMED]
        if len({node.provider.uuid for offer in named for node in offer.nodes}) < len(named):
            return False
    return all(_enough_of(name, offers) for name in context.contested)


def _enough_of(name: str, offers: Sequence[Offer]) -> bool:
    """Compare the free total of a class, each provider counted once, with the total of the parts."""
    takers = [offer for offer in offers if name in offer.part.resources]
    stocks = {node.provider.uuid: node.stocks[name] for offer in takers for node in offer.nodes}
    most = sum(min(stock.capacity - stock.used, stock.inventory.max_unit) for stock in stocks.values())
    return sum(offer.part.resources[name] for offer in takers) <= most


def _candidate(context: SearchContext, cut: Sequence[Part], chosen: Sequence[ProviderId]) -> Candidate:
    parts: dict[ProviderId, dict[str, int]] = {}
    served: dict[str, dict[ProviderId, None]] = {suffix: {} for suffix in context.request.groups}
    for part, uuid in zip(cut, chosen, strict=True):
        served[part.suffix][uuid] = None
        if part.resources:
            given = parts.setdefault(uuid, {})
            for name, amount in part.resources.items():
                given[name] = given.get(name, 0) + amount
    return Candidate(parts, {suffix: tuple(uuids) for suffix, uuids in served.items()})
