"""Choosing a provider for each part of a request, so that all of them go together.

Part by part a provider is chosen. A choice that can come to nothing is left at once: where there is no room beside the
parts before it, or where traits, policy or a subtree could not be had any more, whatever is chosen later.

Law: the search takes a bounded number of steps: one for each provider that is looked at for a part, and for each part
of a choice that is given. When they are used up the search ends, and what it has found is the answer.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.provider import Node
from whimbrel.placement.search import UNNAMED, ProviderIndex, Request

FREE_STEPS = 100
"""Steps in each tree that are not taken from the budget of all trees."""

MOST_STEPS_OF_A_TREE = 250_000
"""Steps after which a tree has given what it gives: some tenths of a second, and some ten thousand candidates."""

MOST_STEPS = 500_000
"""Steps beyond the free ones that all trees take together: half a second, and some 100 MB where no limit is set."""


class Part(msgspec.Struct, frozen=True):
    """What one provider is to give at once."""

    suffix: str
    resources: Mapping[str, int]
    contested: Mapping[str, int] = {}  # of these resources, those of classes that other parts take too


class Offer(msgspec.Struct, frozen=True):
    """The providers that could give a part, each by itself."""

    part: Part
    nodes: Sequence[Node]


class Budget:
    """The steps that are left to all trees together."""

    def __init__(self) -> None:
        self.left = MOST_STEPS


class _Steps:
    """The steps that one tree takes."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._taken = 0

    def take(self, number: int) -> bool:
        """Count steps; False: there are no more."""
        self._taken += number
        if self._taken <= FREE_STEPS:
            return True
        self._budget.left -= number
        return self._taken <= MOST_STEPS_OF_A_TREE and self._budget.left >= 0


def choices(
    index: ProviderIndex, request: Request, offers: Sequence[Offer], budget: Budget
) -> Iterator[Sequence[Node]]:
    """Yield every choice of a provider for each offer that keeps to all rules. It is the same list each time."""
    room = _Room(request)
    rules = _rules(index, request, offers)
    chosen: list[Node] = []
    waiting = [iter(offers[0].nodes)]  # for each part that is reached, the providers that are not tried yet
    steps = _Steps(budget)
    while waiting:
        if len(chosen) == len(waiting):
            room.give_back(offers[len(chosen) - 1].part, chosen.pop())
        number = len(chosen)
        part = offers[number].part
        for node in waiting[-1]:
            if not steps.take(1):
                return
            if room.take(part, node):
                chosen.append(node)
                if all(rule.can_hold(chosen) for rule in rules):
                    break
                room.give_back(part, chosen.pop())
        else:
            waiting.pop()
            continue
        if number + 1 == len(offers):
            yield chosen
            if not steps.take(len(offers)):
                return
        else:
            waiting.append(iter(offers[number + 1].nodes))


class _Room:
    """What is taken so far, and whether something fits beside it."""

    def __init__(self, request: Request) -> None:
        self._isolate = request.group_policy == "isolate"
        self._nested = request.nested
        self._taken: dict[tuple[ProviderId, str], int] = {}
        self._alone: set[ProviderId] = set()  # each serves the only named group that it may
        self._of_tree: dict[ProviderId, list[ProviderId]] = {}  # root -> who gives something, where it may be one only

    def take(self, part: Part, node: Node) -> bool:
        """Take a part from a provider; False, and nothing is taken: it cannot give this too."""
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
        """Tell whether an amount that fits by itself fits beside what is taken."""
        taken = self._taken.get((node.provider.uuid, name))
        if not taken:
            return True
        stock = node.stocks[name]
        return stock.used + taken + amount <= stock.capacity and taken + amount <= stock.inventory.max_unit

    def give_back(self, part: Part, node: Node) -> None:
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
        self._later: dict[int, frozenset[str]] = {}  # place -> the traits that could come after it
        later: frozenset[str] = frozenset()
        for number in reversed(self._numbers):
            self._later[number] = later
            later = later.union(*(node.traits for node in offers[number].nodes))

    def can_hold(self, chosen: Sequence[Node]) -> bool:
        """Tell whether it is so, or still can be by what is chosen later."""
        later = self._later.get(len(chosen) - 1)
        if later is None:
            return True
        traits = later.union(*(chosen[number].traits for number in self._numbers if number < len(chosen)))
        return all(traits & some for some in self._required)


class _Subtree:
    """One of the providers of some groups is above all the others, or is all of them."""

    def __init__(self, index: ProviderIndex, numbers: Collection[int], offers: Sequence[Offer]) -> None:
        self._nodes = index.nodes
        self._numbers = sorted(numbers)
        self._lines: dict[ProviderId, frozenset[ProviderId]] = {}
        self._later: dict[int, frozenset[ProviderId]] = {}  # place -> the providers that could come after it
        later: frozenset[ProviderId] = frozenset()
        for number in reversed(self._numbers):
            self._later[number] = later
            later = later.union(node.provider.uuid for node in offers[number].nodes)

    def can_hold(self, chosen: Sequence[Node]) -> bool:
        """Tell whether it is so, or still can be by what is chosen later."""
        later = self._later.get(len(chosen) - 1)
        if later is None:
            return True
        now = [chosen[number].provider.uuid for number in self._numbers if number < len(chosen)]
        above_all = frozenset.intersection(*(self._line(uuid) for uuid in now))
        return not (above_all.isdisjoint(now) and above_all.isdisjoint(later))

    def _line(self, uuid: ProviderId) -> frozenset[ProviderId]:
        """List a provider and all that are above it."""
        if uuid not in self._lines:
            line, parent = [uuid], self._nodes[uuid].provider.parent
            while parent is not None:
                line.append(parent)
                parent = self._nodes[parent].provider.parent
            self._lines[uuid] = frozenset(line)
        return self._lines[uuid]
