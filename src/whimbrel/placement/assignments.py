"""The assignments of a request in the trees of hosts, or the shortfall there."""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from whimbrel.domain.ids import ProviderId
from whimbrel.domain.resources import Resources
from whimbrel.placement.search import UNNAMED, ProviderIndex, Request, Wanted, serves
from whimbrel.placement.shortfalls import shortfall_of
from whimbrel.placement.tree_search import Candidate, SearchContext, assignments_in
from whimbrel.ports.placement.assignments import Assignment, Group, ResourceRequest, Shortfall


def all_assignments(
    index: ProviderIndex, resources: ResourceRequest, roots: Collection[ProviderId], most: int
) -> dict[ProviderId, tuple[Assignment, ...] | Shortfall]:
    """Return, for each of these roots, up to `most` assignments of a request in its tree, or the shortfall."""
    request, suffixes = request_of(resources), _suffixes(resources)
    context = SearchContext(index, request)
    found: dict[ProviderId, tuple[Assignment, ...] | Shortfall] = {}
    for root in roots:
        if root in index.nodes:
            candidates = islice(_candidates(context, root), most)
            assignments = tuple(_assignment(index, candidate, suffixes) for candidate in candidates)
            found[root] = assignments or shortfall_of(context, root)
    return found


def _candidates(context: SearchContext, root: ProviderId) -> Iterator[Candidate]:
    """Yield the assignments in a tree that the index has not preselected."""
    tree = context.index.tree(root)
    if context.is_plain and len(tree) == 1 and not all(serves(node, context.request) for node in tree):
        return iter(())
    return assignments_in(context, root)


def _suffixes(resources: ResourceRequest) -> dict[str, str]:
    return {group.id: f"_{group.id}" for group in resources.groups}


def request_of(resources: ResourceRequest) -> Request:
    """Return a request in the terms of the search. Without own amounts, its traits and aggregates apply to the root."""
    suffixes = _suffixes(resources)
    groups = {suffixes[group.id]: _wanted(group.resources, group) for group in resources.groups}
    of_own, of_root = _wanted(resources.own, resources), Wanted()
    if resources.own:
        groups = {UNNAMED: of_own, **groups}
    else:
        of_root = of_own
    return Request(
        groups=groups,
        group_policy=resources.group_policy,
        same_subtree=tuple(frozenset(suffixes[name] for name in some) for some in resources.same_subtree),
        root_required=(*_each(resources.root_required), *of_root.required),
        root_forbidden=resources.root_forbidden | of_root.forbidden,
        root_member_of=of_root.member_of,
        root_not_member_of=of_root.not_member_of,
    )


def _wanted(resources: Resources, what: ResourceRequest | Group) -> Wanted:
    return Wanted(
        resources=resources,
        required=(*_each(what.required), *what.required_any),
        forbidden=what.forbidden,
        member_of=what.member_of,
        not_member_of=what.not_member_of,
    )


def _each(traits: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset([trait]) for trait in traits)


def _assignment(index: ProviderIndex, candidate: Candidate, suffixes: Mapping[str, str]) -> Assignment:
    served = {name: candidate.mappings[suffix][0] for name, suffix in suffixes.items()}
    return Assignment(
        parts={uuid: dict(given) for uuid, given in candidate.parts.items()},
        served=served,
        served_by={name: index.nodes[uuid].provider.name for name, uuid in served.items()},
    )
