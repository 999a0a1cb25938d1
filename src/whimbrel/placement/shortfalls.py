"""The shortfall of a provider tree: the first unsatisfied part of a request.

The suggestion covers all shortfalls, each considered alone, and whether the rest fits together then.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import os_traits
from msgspec.structs import replace

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.inventory import Stock, unit_problem
from whimbrel.placement.provider import Node
from whimbrel.placement.search import UNNAMED, ProviderIndex, Request, Wanted, fits, has_traits, is_member
from whimbrel.placement.tree_search import SearchContext, assignments_in
from whimbrel.ports.placement.assignments import Shortfall

_OUTSIDE = Shortfall(words="it is in none of the aggregates that are asked for")


def shortfall_of(context: SearchContext, root: ProviderId) -> Shortfall:
    """Return why a request has no assignment in the tree of this root."""
    index, request = context.index, context.request
    top = index.nodes[root]
    near = [*index.tree(root), *context.sharing_providers(root)]
    of_groups = {suffix: list(_of(suffix, wanted, near, top)) for suffix, wanted in request.groups.items()}
    found = [*_of_root(top, context.of_root), *chain(*of_groups.values())]
    if not found or not _has_rest(index, request, of_groups, root):
        found.append(_together(context))
    suggestions = list(dict.fromkeys(shortfall.suggestion for shortfall in found))
    return replace(found[0], suggestion=None if None in suggestions else "; and with ".join(filter(None, suggestions)))


def _has_rest(
    index: ProviderIndex, request: Request, shortfalls_of: Mapping[str, Sequence[Shortfall]], root: ProviderId
) -> bool:
    """Check whether the groups without a shortfall fit together. Classes of the unnamed group always do."""
    named = {suffix: request.groups[suffix] for suffix, some in shortfalls_of.items() if suffix != UNNAMED and not some}
    if not named:
        return True
    own = request.groups.get(UNNAMED, Wanted())
    missing = {shortfall.resource for shortfall in shortfalls_of.get(UNNAMED, ())}
    there = {} if None in missing else {name: n for name, n in own.resources.items() if name not in missing}
    groups = {UNNAMED: Wanted(resources=there), **named} if there else named
    together = [some & groups.keys() for some in request.same_subtree]
    rest = Request(groups=groups, group_policy=request.group_policy, same_subtree=[some for some in together if some])
    return next(assignments_in(SearchContext(index, rest), root), None) is not None


def _together(context: SearchContext) -> Shortfall:
    if context.budget.left < 0:
        return Shortfall(words="no way to place it was found there among all that were tried")
    words = "not enough room for all that is asked for together"
    if context.request.group_policy == "isolate" and len(context.request.groups) > 1:
        suggestion = "another device free there, or a flavor with group_policy=none"
        return Shortfall(words=f"{words}, each group on a device of its own", suggestion=suggestion)
    return Shortfall(words=words, suggestion="more of what several parts of the request take free there")


def _of_root(top: Node, wanted: Wanted) -> Iterator[Shortfall]:
    yield from _without(top.traits, wanted.required)
    yield from _with(top.traits, wanted.forbidden)
    yield from _excluded(top, wanted)
    if not is_member(top.aggregates, replace(wanted, not_member_of=frozenset())):
        yield _OUTSIDE


def _excluded(top: Node, wanted: Wanted) -> Iterator[Shortfall]:
    if top.aggregates & wanted.not_member_of:
        yield Shortfall(words="it is in an aggregate that is ruled out")


def _of(suffix: str, wanted: Wanted, near: Sequence[Node], top: Node) -> Iterator[Shortfall]:
    return _of_own(near, top, wanted) if suffix == UNNAMED else _of_group(near, wanted)


def _of_own(near: Sequence[Node], top: Node, wanted: Wanted) -> Iterator[Shortfall]:
    excluded = list(_excluded(top, wanted))
    there = [node for node in near if is_member(node.aggregates | top.aggregates, wanted)]
    able = [node for node in there if node.traits.isdisjoint(wanted.forbidden)]
    if excluded:
        yield from excluded
    elif not there:
        yield _OUTSIDE
    elif not able:
        found = list(_with(top.traits, wanted.forbidden))
        yield from found or [Shortfall(words="all that is there has a trait that is ruled out")]
    else:
        traits = frozenset[str]().union(*(node.traits for node in able))
        yield from _lacking(able, wanted.resources, None)
        yield from _without(traits, wanted.required)


def _of_group(near: Sequence[Node], wanted: Wanted) -> Iterator[Shortfall]:
    what = _described(wanted)
    such = [node for node in near if has_traits(node.traits, wanted)]
    able = [node for node in such if is_member(node.aggregates, wanted)]
    on = f" on a device {what}" if what else ""
    if not such:
        yield Shortfall(words=f"no device {what}", suggestion=f"a device {what}")
    elif not able:
        yield Shortfall(words="no device in the aggregates that are asked for")
    elif shortfalls := list(_lacking(able, wanted.resources, on)):
        yield from shortfalls
    elif not any(fits(node, wanted.resources) for node in able):
        amounts = " and ".join(f"{amount} {name}" for name, amount in wanted.resources.items())
        device = f"one device{f' {what}' if what else ''}"
        yield Shortfall(words=f"no room for {amounts} on {device}", suggestion=f"{amounts} free on {device}")


def _described(wanted: Wanted) -> str:
    """Describe the traits of a device: `with A, B or C, without D`."""
    required = ", ".join(" or ".join(sorted(some)) for some in wanted.required)
    forbidden = ", ".join(sorted(wanted.forbidden))
    parts = (f"with {required}" if required else "", f"without {forbidden}" if forbidden else "")
    return ", ".join(part for part in parts if part)


def _lacking(able: Collection[Node], resources: Mapping[str, int], on: str | None) -> Iterator[Shortfall]:
    """on: for a group, the device, or "" for any; None: the flavor's own amounts, which a smaller flavor reduces."""
    for name, amount in resources.items():
        if not any(fits(node, {name: amount}) for node in able):
            yield _no_room(able, name, amount, on)


def _no_room(able: Collection[Node], name: str, amount: int, on: str | None) -> Shortfall:
    stocks = [node.stocks[name] for node in able if name in node.stocks]
    free = max((min(stock.capacity - stock.used, stock.inventory.max_unit) for stock in stocks), default=0)
    free = max(0, free)
    largest = max((_largest(stock) for stock in stocks), default=0)
    of_flavor, on = on is None, on or ""
    suggestion = f"{amount - free} {name} more free{on or ' there'}"
    words = f"no room for {amount} {name}{on}"
    if not stocks:
        words, suggestion = f"it has no {name}{on}", f"an inventory of {amount} {name}{on}"
    elif amount > largest:
        words = words if on else f"{amount} {name} is more than the maximum for one server there"
        suggestion = (
            _at_most(name, largest) if of_flavor else f"an inventory of {amount} {name}{on or ' on one device'}"
        )
    elif free >= amount and all(unit_problem(stock.inventory, amount) for stock in stocks):
        words = f"{name} cannot be allocated there in amounts of {amount}{on}"
        suggestion = f"an amount of {name} that can be allocated: {_valid_amounts(stocks)}"
    elif free and of_flavor:
        suggestion = f"{suggestion}, or {_at_most(name, free)}"
    return Shortfall(words=words, resource=name, asked=amount, free=free, suggestion=suggestion)


def _largest(stock: Stock) -> int:
    return min(stock.capacity, stock.inventory.max_unit)


def _at_most(name: str, amount: int) -> str:
    return f"a flavor with at most {amount} {name}"


def _valid_amounts(stocks: Iterable[Stock]) -> str:
    ranges = {_range(stock) for stock in stocks}
    return " or ".join(f"{least} to {most} in steps of {step}" for least, most, step in sorted(ranges))


def _range(stock: Stock) -> tuple[int, int, int]:
    step = stock.inventory.step_size
    return -(-stock.inventory.min_unit // step) * step, _largest(stock) // step * step, step


def _without(traits: frozenset[str], required: Iterable[frozenset[str]]) -> Iterator[Shortfall]:
    for some in required:
        if not traits & some:
            names = sorted(some)
            lacks = "it lacks the trait" if len(names) == 1 else "it has none of the traits"
            given = [name for name in names if os_traits.is_custom(name)]
            words, suggestion = f"{lacks} {', '.join(names)}", f"the trait {' or '.join(given)}" if given else None
            yield Shortfall(words=words, suggestion=suggestion)


def _with(traits: frozenset[str], forbidden: frozenset[str]) -> Iterator[Shortfall]:
    for name in sorted(traits & forbidden):
        suggestion = f"the trait {name} taken from it" if os_traits.is_custom(name) else None
        yield Shortfall(words=f"it has the trait {name}", suggestion=suggestion)
