"""What a tree of providers lacks that a request asks for: said of the first thing that it could not give by itself."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.inventory import unit_problem
from whimbrel.placement.provider import Node
from whimbrel.placement.search import UNNAMED, Wanted, fits, has_traits, is_member
from whimbrel.placement.tree_search import Quest
from whimbrel.ports.placement import Lack

_OUTSIDE = Lack(words="it is in none of the aggregates that are asked for")


def lack_of(quest: Quest, root: ProviderId) -> Lack:
    """Say why a request has no way in the tree of this root."""
    woods, request = quest.woods, quest.request
    top = woods.nodes[root]
    near = [*woods.tree(root), *quest.guests(root)]
    return _at_the_root(top, quest.of_root) or _of_groups(near, top, request.groups) or Lack(words=_together(quest))


def _together(quest: Quest) -> str:
    if quest.budget.left < 0:
        return "no way to place it was found there among all that were tried"
    if quest.request.group_policy == "isolate" and len(quest.request.groups) > 1:
        return "not enough room for all that is asked for together, each group on a device of its own"
    return "not enough room for all that is asked for together"


def _at_the_root(top: Node, wanted: Wanted) -> Lack | None:
    return (
        _without(top.traits, wanted.required)
        or _with(top.traits, wanted.forbidden)
        or _excluded(top, wanted)
        or (None if is_member(top.aggregates, wanted) else _OUTSIDE)
    )


def _excluded(top: Node, wanted: Wanted) -> Lack | None:
    return Lack(words="it is in an aggregate that is ruled out") if top.aggregates & wanted.not_member_of else None


def _of_groups(near: Sequence[Node], top: Node, groups: Mapping[str, Wanted]) -> Lack | None:
    for suffix, wanted in groups.items():
        if lack := _of_own(near, top, wanted) if suffix == UNNAMED else _of_group(near, wanted):
            return lack
    return None


def _of_own(near: Sequence[Node], top: Node, wanted: Wanted) -> Lack | None:
    if lack := _excluded(top, wanted):
        return lack
    there = [node for node in near if is_member(node.aggregates | top.aggregates, wanted)]
    if not there:
        return _OUTSIDE
    able = [node for node in there if node.traits.isdisjoint(wanted.forbidden)]
    if not able:
        return _with(top.traits, wanted.forbidden) or Lack(words="all that is there has a trait that is ruled out")
    traits = frozenset[str]().union(*(node.traits for node in able))
    return _room(able, wanted.resources, "") or _without(traits, wanted.required)


def _of_group(near: Sequence[Node], wanted: Wanted) -> Lack | None:
    what = _described(wanted)
    able = [node for node in near if has_traits(node.traits, wanted)]
    if not able:
        return Lack(words=f"no device {what}")
    able = [node for node in able if is_member(node.aggregates, wanted)]
    if not able:
        return Lack(words="no device in the aggregates that are asked for")
    on = f" on a device {what}" if what else ""
    if lack := _room(able, wanted.resources, on):
        return lack
    if not any(fits(node, wanted.resources) for node in able):
        amounts = " and ".join(f"{amount} {name}" for name, amount in wanted.resources.items())
        return Lack(words=f"no room for {amounts} on one device{f' {what}' if what else ''}")
    return None


def _described(wanted: Wanted) -> str:
    """Say which traits a device is to have: `with A, B or C, without D`."""
    required = ", ".join(" or ".join(sorted(some)) for some in wanted.required)
    forbidden = ", ".join(sorted(wanted.forbidden))
    said = (f"with {required}" if required else "", f"without {forbidden}" if forbidden else "")
    return ", ".join(one for one in said if one)


def _room(able: Collection[Node], resources: Mapping[str, int], on: str) -> Lack | None:
    for name, amount in resources.items():
        if not any(fits(node, {name: amount}) for node in able):
            return _no_room(able, name, amount, on)
    return None


def _no_room(able: Collection[Node], name: str, amount: int, on: str) -> Lack:
    stocks = [node.stocks[name] for node in able if name in node.stocks]
    free = max((min(stock.capacity - stock.used, stock.inventory.max_unit) for stock in stocks), default=0)
    if not stocks:
        words = f"it has no {name}{on}"
    elif all(amount > min(stock.capacity, stock.inventory.max_unit) for stock in stocks) and not on:
        words = f"{amount} {name} is more than one server may have there"
    elif free >= amount and all(unit_problem(stock.inventory, amount) for stock in stocks):
        words = f"{name} is not given there in pieces of {amount}{on}"
    else:
        words = f"no room for {amount} {name}{on}"
    return Lack(words=words, resource=name, asked=amount, free=max(0, free))


def _without(traits: frozenset[str], required: Iterable[frozenset[str]]) -> Lack | None:
    for some in required:
        if not traits & some:
            names = sorted(some)
            what = f"the trait {names[0]}" if len(names) == 1 else f"any of the traits {', '.join(names)}"
            return Lack(words=f"it has not {what}")
    return None


def _with(traits: frozenset[str], forbidden: frozenset[str]) -> Lack | None:
    both = sorted(traits & forbidden)
    return Lack(words=f"it has the trait {both[0]}") if both else None
