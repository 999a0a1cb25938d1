"""Choose a provider for each part of a request, so that all choices fit together.

Providers are chosen part by part. A choice is abandoned as soon as it cannot succeed: if the provider lacks capacity
besides the earlier parts, or if traits, policy or a subtree cannot be satisfied by any later choice.

Invariant: the search takes a bounded number of steps: one for each provider examined for a part, and one for each
part of a yielded choice. When they are used up, the search ends with what it has found.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.provider import Node
from whimbrel.placement.search import UNNAMED, ProviderIndex, Request

FREE_STEPS = 100
"""Steps in each tree that do not count against the budget of all trees."""

MOST_STEPS_OF_A_TREE = 250_000
"""Maximum steps of a tree: some tenths of a second, and some ten thousand candidates."""

MOST_STEPS = 500_000
"""Maximum steps beyond the free ones, for all trees: half a second, and some 100 MB without a limit."""


class Part(msgspec.Struct, frozen=True):
    """What one provider must serve at once."""

    suffix: str
    resources: Mapping[str, int]
    contested: Mapping[str, int] = {}  # the resources of classes that other parts take too


class Offer(msgspec.Struct, frozen=True):
    """The providers that can serve a part alone."""

    part: Part
    nodes: Sequence[Node]


class Budget:
    """The remaining steps of all trees."""

    def __init__(self) -> None:
        self.left = MOST_STEPS


class _Steps:
    """The steps of one tree."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._taken = 0

    def take(self, number: int) -> bool:
        """Count steps; False: they are used up."""
        self._taken += number
        if self._taken <= FREE_STEPS:
            return True
        self._budget.left -= number
        return self._taken <= MOST_STEPS_OF_A_TREE and self._budget.left >= 0


def choices(
    index: ProviderIndex, request: Request, offers: Sequence[Offer], budget: Budget
) -> Iterator[Sequence[Node]]:
    """Yield every choice of a provider for each offer that satisfies all rules, in the same list object each time."""
    taken = _TakenAmounts(request)
    rules = _rules(index, request, offers)
    chosen: list[Node] = []
    waiting = [iter(offers[0].nodes)]  # for each part reached, the providers that are not tried yet
    steps = _Steps(budget)
    while waiting:
        if len(chosen) == len(waiting):
            taken.release(offers[len(chosen) - 1].part, chosen.pop())
        number = len(chosen)
        part = offers[number].part
        for node in waiting[-1]:
            if not steps.take(1):
                return
            if taken.take(part, node):
                chosen.append(node)
                if all(rule.can_hold(chosen) for rule in rules):
                    break
                taken.release(part, chosen.pop())
        else:
            waiting.pop()
            continue
        if number + 1 == len(offers):
            yield chosen
            if not steps.take(len(offers)):
                return
        else:
            waiting.append(iter(offers[number + 1].nodes))


class _TakenAmounts:
    """The amounts taken so far, and whether another part fits."""

    def __init__(self, request: Request) -> None:
        self._isolate = request.group_policy == "isolate"
        self._nested = request.nested
        self._taken: dict[tuple[ProviderId, str], int] = {}
        self._alone: set[ProviderId] = set()  # with policy isolate: providers that serve a named group
        self._of_tree: dict[ProviderId, list[ProviderId]] = {}  # root -> serving providers, where only one is allowed

    def take(self, part: Part, node: Node) -> bool:
        """Take a part from a provider; False: it does not fit, and nothing is taken."""
        uuid, root = node.provider.uuid, node.provider.root
        alone = self._isolate and part.suffix != UNNAMED
        if alone and uuid in self._alone:
            return False
        counts = part.resources and not self._nested
        if counts and any(other != uuid for other in self._of_tree.get(root, ())):
            return False
        if part.contested and not all(self._fits(node, name, amount) for name, amount in part.contested.items()):
            return False
        for name, amount in part.contested.items():
            self._taken[uuid, name] = self._taken.get((uuid, name), 0) + amount
        if alone:
            self._alone.add(uuid)
        if counts:
            self._of_tree.setdefault(root, []).append(uuid)
        return True

    def _fits(self, node: Node, name: str, amount: int) -> bool:
        """Check whether an amount that fits alone fits besides what is taken."""
        taken = self._taken.get((node.provider.uuid, name))
        if not taken:
            return True
        stock = node.stocks[name]
        return stock.used + taken + amount <= stock.capacity and taken + amount <= stock.inventory.max_unit

    def release(self, part: Part, node: Node) -> None:
        for name, amount in part.contested.items():
            self._taken[node.provider.uuid, name] -= amount
        if self._isolate and part.suffix != UNNAMED:
            self._alone.discard(node.provider.uuid)
        if part.resources and not self._nested:
            self._of_tree[node.provider.root].pop()


def _rules(index: ProviderIndex, request: Request, offers: Sequence[Offer]) -> list["_Traits | _Subtree"]:
    rules: list[_Traits | _Subtree] = []
    if UNNAMED in request.groups and request.groups[UNNAMED].required:
        numbers = {number for number, offer in enumerate(offers) if offer.part.suffix == UNNAMED}
        rules.append(_Traits(request.groups[UNNAMED].required, numbers, offers))
    for some in request.same_subtree:
        numbers = {number for number, offer in enumerate(offers) if offer.part.suffix in some}
        if len(numbers) > 1:
            rules.append(_Subtree(index, numbers, offers))
    return rules


class _Traits:
    """The providers of the unnamed group have all required traits together."""

    def __init__(self, required: Sequence[frozenset[str]], numbers: Collection[int], offers: Sequence[Offer]) -> None:
        self._required = required
        self._numbers = sorted(numbers)
        self._later: dict[int, frozenset[str]] = {}  # index -> the traits that could come after it
        later: frozenset[str] = frozenset()
        for number in reversed(self._numbers):
            self._later[number] = later
            later = later.union(*(node.traits for node in offers[number].nodes))

    def can_hold(self, chosen: Sequence[Node]) -> bool:
        """Check whether the rule holds, or can still be satisfied by later choices."""
        later = self._later.get(len(chosen) - 1)
        if later is None:
            return True
        traits = later.union(*(chosen[number].traits for number in self._numbers if number < len(chosen)))
        return all(traits & some for some in self._required)


class _Subtree:
    """One of the providers of some groups is an ancestor of all the others, or is all of them."""

    def __init__(self, index: ProviderIndex, numbers: Collection[int], offers: Sequence[Offer]) -> None:
        self._nodes = index.nodes
        self._numbers = sorted(numbers)
        self._ancestors: dict[ProviderId, frozenset[ProviderId]] = {}
        self._later: dict[int, frozenset[ProviderId]] = {}  # index -> the providers that could come after it
        later: frozenset[ProviderId] = frozenset()
        for number in reversed(self._numbers):
            self._later[number] = later
            later = later.union(node.provider.uuid for node in offers[number].nodes)

    def can_hold(self, chosen: Sequence[Node]) -> bool:
        """Check whether the rule holds, or can still be satisfied by later choices."""
        later = self._later.get(len(chosen) - 1)
        if later is None:
            return True
        now = [chosen[number].provider.uuid for number in self._numbers if number < len(chosen)]
        above_all = frozenset.intersection(*(self._with_ancestors(uuid) for uuid in now))
        return not (above_all.isdisjoint(now) and above_all.isdisjoint(later))

    def _with_ancestors(self, uuid: ProviderId) -> frozenset[ProviderId]:
        """Return a provider and its ancestors."""
        if uuid not in self._ancestors:
            line, parent = [uuid], self._nodes[uuid].provider.parent
            while parent is not None:
                line.append(parent)
                parent = self._nodes[parent].provider.parent
            self._ancestors[uuid] = frozenset(line)
        return self._ancestors[uuid]
