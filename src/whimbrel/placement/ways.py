"""Where a server with devices could be placed: for each host the way to do it, or the reason why there is none."""

from collections.abc import Collection, Mapping

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.provider import Node
from whimbrel.placement.search import UNNAMED, Request, Wanted, Woods, fits, has_traits
from whimbrel.placement.tree_search import Candidate, Quest, ways_in
from whimbrel.ports.placement import Group, Way, Wish


def ways(woods: Woods, wish: Wish, roots: Collection[ProviderId]) -> dict[ProviderId, Way | str]:
    """Give, for each of these roots, the first way to place a wish in its tree, or why there is none."""
    suffixes = {group.id: f"_{group.id}" for group in wish.groups}
    quest = Quest(woods, _request(wish, suffixes))
    return {root: _way(quest, wish, suffixes, root) for root in roots if root in woods.nodes}


def _request(wish: Wish, suffixes: Mapping[str, str]) -> Request:
    groups = {UNNAMED: Wanted(resources=wish.own)} if wish.own else {}
    for group in wish.groups:
        required = tuple(frozenset([trait]) for trait in group.required)
        groups[suffixes[group.id]] = Wanted(resources=group.resources, required=required)
    return Request(
        groups=groups,
        same_subtree=tuple(frozenset(suffixes[name] for name in some) for some in wish.same_subtree),
    )


def _way(quest: Quest, wish: Wish, suffixes: Mapping[str, str], root: ProviderId) -> Way | str:
    candidate = next(ways_in(quest, root), None)
    return _why_none(quest.woods, wish, root) if candidate is None else _told(quest.woods, candidate, suffixes)


def _told(woods: Woods, candidate: Candidate, suffixes: Mapping[str, str]) -> Way:
    served = {name: candidate.mappings[suffix][0] for name, suffix in suffixes.items()}
    return Way(
        parts={uuid: dict(given) for uuid, given in candidate.parts.items()},
        served=served,
        served_by={name: woods.nodes[uuid].provider.name for name, uuid in served.items()},
    )


def _why_none(woods: Woods, wish: Wish, root: ProviderId) -> str:
    """Name the first group that nobody of the tree could serve, be it alone there."""
    tree = woods.tree(root)
    for group in wish.groups:
        if reason := _why_not(tree, group):
            return reason
    return "not enough room for all that is asked for together"


def _why_not(tree: Collection[Node], group: Group) -> str | None:
    wanted = Wanted(required=tuple(frozenset([trait]) for trait in group.required))
    able = [node for node in tree if has_traits(node.traits, wanted)]
    if not able:
        return f"no device with {', '.join(group.required)}"
    for name, amount in group.resources.items():
        if not any(fits(node, {name: amount}) for node in able):
            where = f" on a device with {', '.join(group.required)}" if group.required else ""
            return f"no room for {amount} {name}{where}"
    return None
