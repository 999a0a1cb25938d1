"""Where a server with devices could be placed: for each host the way to do it, or the reason why there is none."""

from collections.abc import Collection, Mapping

from whimbrel.domain.ids import ProviderId
from whimbrel.domain.resources import Resources
from whimbrel.placement.provider import Node
from whimbrel.placement.search import UNNAMED, Request, Wanted, Woods, fits, has_traits
from whimbrel.placement.tree_search import Candidate, Quest, ways_in
from whimbrel.ports.placement import Group, Way, Wish


def ways(woods: Woods, wish: Wish, roots: Collection[ProviderId]) -> dict[ProviderId, Way | str]:
    """Give, for each of these roots, the first way to place a wish in its tree, or why there is none."""
    suffixes = _suffixes(wish)
    quest = Quest(woods, request_of(wish))
    return {root: _way(quest, wish, suffixes, root) for root in roots if root in woods.nodes}


def _suffixes(wish: Wish) -> dict[str, str]:
    return {group.id: f"_{group.id}" for group in wish.groups}


def request_of(wish: Wish) -> Request:
    """Say a wish in the search's words. Whose own amounts are nothing asks the traits of the host itself."""
    suffixes = _suffixes(wish)
    groups = {suffixes[group.id]: _wanted(group.resources, group) for group in wish.groups}
    of_own, of_root = _wanted(wish.own, wish), Wanted()
    if wish.own:
        groups = {UNNAMED: of_own, **groups}
    else:
        of_root = of_own
    return Request(
        groups=groups,
        group_policy=wish.group_policy,
        same_subtree=tuple(frozenset(suffixes[name] for name in some) for some in wish.same_subtree),
        root_required=(*_each(wish.root_required), *of_root.required),
        root_forbidden=wish.root_forbidden | of_root.forbidden,
    )


def _wanted(resources: Resources, what: Wish | Group) -> Wanted:
    return Wanted(
        resources=resources,
        required=(*_each(what.required), *what.required_any),
        forbidden=what.forbidden,
        member_of=what.member_of,
        not_member_of=what.not_member_of,
    )


def _each(traits: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset([trait]) for trait in traits)


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
