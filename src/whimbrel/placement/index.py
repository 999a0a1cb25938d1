"""All providers in memory, in columns: which trees could hold a candidate is answered by arithmetic on arrays.

Law: the index is disposable, and what it leaves out cannot hold a candidate; what it lets through is looked at exactly
by the search, and checked again by the claim. A column has one number for each provider; rows of removed providers are
used again. Trees come in an order that is shuffled once, by a seed, and each request begins further on, so that the
first hosts are not always the same.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.inventory import MAX_INT
from whimbrel.placement.provider import Node
from whimbrel.placement.search import SHARING, UNNAMED, Request, Wanted

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]

Derived = TypeVar("Derived")

MOST_DERIVED = 20_000
"""How many things made of providers are kept, of each kind."""

FIRST_ROOM = 64
"""Rows that a new index has room for; it doubles when they are full."""


NOTHING = (-1, 1, 0, 1)
"""The row of a provider that has no inventory of a class: nothing fits."""


class _Stocks:
    """The columns of one resource class."""

    def __init__(self, room: int) -> None:
        self._columns: Numbers = np.tile(np.array(NOTHING, np.int64)[:, None], room)

    def set(self, row: int, free: int, least: int, most: int, step: int) -> None:
        # The room of a large ratio is larger than any number that a column can hold, and than any amount.
        self._columns[:, row] = (max(-1, min(free, MAX_INT)), least, most, step)

    def grow(self, more: int) -> None:
        self._columns = np.concatenate([self._columns, _Stocks(more)._columns], axis=1)

    def fitting(self, amount: int) -> Mask:
        amount = min(amount, MAX_INT + 1)  # which is more than any provider gives at once
        free, least, most, step = self._columns
        fits: Mask = (free >= amount) & (least <= amount) & (most >= amount)
        return fits & (amount % step == 0) if bool((step != 1).any()) else fits


class Index:
    """Fulfils search.Woods, for any number of providers."""

    def __init__(self, nodes: Iterable[Node], chance: Random) -> None:
        self.nodes: dict[ProviderId, Node] = {}
        self._trees: dict[ProviderId, dict[ProviderId, Node]] = {}
        self._chance = chance
        self._room = 0
        self._rows: dict[ProviderId, int] = {}
        self._uuids: list[ProviderId] = []  # by row
        self._unused: list[int] = []
        self._root_row: Numbers = np.zeros(0, np.int64)
        self._is_root: Mask = np.zeros(0, np.bool_)
        self._stocks: dict[str, _Stocks] = {}
        self._traits: dict[str, Mask] = {}
        self._aggregates: dict[str, Mask] = {}
        self._order: Numbers = np.zeros(0, np.int64)  # of rows, in which trees are offered
        self._derived: dict[Callable[[Node], Any], dict[ProviderId, Any]] = {}
        self._grow(FIRST_ROOM)
        self.apply((), nodes)

    # Keeping up

    def apply(self, touched: Iterable[ProviderId], nodes: Iterable[Node]) -> None:
        """Take over how these providers are now; those that were touched and are not among the nodes are gone."""
        now = {node.provider.uuid: node for node in nodes}
        for uuid in {*touched, *now}:
            if old := self.nodes.pop(uuid, None):
                self._clear(old)
            if uuid not in now and uuid in self._rows:
                self._unused.append(self._rows.pop(uuid))
        for node in now.values():
            self._fill(node)

    def _clear(self, node: Node) -> None:
        row, tree = self._rows[node.provider.uuid], self._trees[node.provider.root]
        del tree[node.provider.uuid]
        if not tree:
            del self._trees[node.provider.root]
        self._is_root[row] = False
        for derived in self._derived.values():
            derived.pop(node.provider.uuid, None)
        for name in node.stocks:
            self._stocks[name].set(row, *NOTHING)
        for name in node.traits:
            self._traits[name][row] = False
        for name in node.aggregates:
            self._aggregates[name][row] = False

    def _fill(self, node: Node) -> None:
        provider = node.provider
        row = self._row(provider.uuid)
        root_row = self._row(provider.root)  # may make room: the columns are looked up after it
        self.nodes[provider.uuid] = node
        self._trees.setdefault(provider.root, {})[provider.uuid] = node
        self._root_row[row], self._is_root[row] = root_row, provider.uuid == provider.root
        for name, stock in node.stocks.items():
            if name not in self._stocks:
                self._stocks[name] = _Stocks(self._room)
            inventory = stock.inventory
            room = stock.capacity - stock.used
            self._stocks[name].set(row, room, inventory.min_unit, inventory.max_unit, inventory.step_size)
        for name in node.traits:
            self._flags(self._traits, name)[row] = True
        for name in node.aggregates:
            self._flags(self._aggregates, name)[row] = True

    def _flags(self, table: dict[str, Mask], name: str) -> Mask:
        if name not in table:
            table[name] = np.zeros(self._room, np.bool_)
        return table[name]

    def _row(self, uuid: ProviderId) -> int:
        if uuid not in self._rows:
            if not self._unused:
                self._grow(self._room)
            self._rows[uuid] = self._unused.pop()
            self._uuids[self._rows[uuid]] = uuid
        return self._rows[uuid]

    def _grow(self, more: int) -> None:
        self._unused += range(self._room + more - 1, self._room - 1, -1)
        self._room += more
        self._uuids += [ProviderId("")] * more
        self._root_row = np.concatenate([self._root_row, np.zeros(more, np.int64)])
        self._is_root = np.concatenate([self._is_root, np.zeros(more, np.bool_)])
        for column in self._stocks.values():
            column.grow(more)
        for table in (self._traits, self._aggregates):
            for name in table:
                table[name] = np.concatenate([table[name], np.zeros(more, np.bool_)])
        order = list(range(self._room))
        self._chance.shuffle(order)
        self._order = np.array(order, np.int64)

    # Asking

    def tree(self, root: ProviderId) -> Sequence[Node]:
        return list(self._trees[root].values())

    def tree_of(self, uuid: ProviderId) -> Sequence[Node]:
        """List the whole tree that a provider is in; nothing where there is no such provider."""
        node = self.nodes.get(uuid)
        return self.tree(node.provider.root) if node else []

    def derived(self, node: Node, make: Callable[[Node], Derived]) -> Derived:
        known = self._derived.setdefault(make, {})
        uuid = node.provider.uuid
        if uuid not in known:
            if len(known) >= MOST_DERIVED:
                known.clear()
            known[uuid] = make(node)
        return cast(Derived, known[uuid])

    def sharing(self) -> Sequence[Node]:
        rows = np.flatnonzero(self._any(self._traits, [SHARING]))
        return [self.nodes[self._uuids[row]] for row in rows.tolist()]

    def roots(self, request: Request) -> Iterator[ProviderId]:
        """Yield the roots of the trees that could hold a candidate, each time from another one on."""
        could = self._is_root.copy()
        for suffix, wanted in request.groups.items():
            could &= self._could_hold(wanted, alone=suffix != UNNAMED)
        for some in request.root_required:
            could &= self._any(self._traits, some)
        could &= ~self._any(self._traits, request.root_forbidden)
        found = self._order[could[self._order]]
        if len(found):
            found = np.roll(found, -self._chance.randrange(len(found)))
        for start in range(0, len(found), 256):
            for row in found[start : start + 256].tolist():
                yield self._uuids[row]

    def _could_hold(self, wanted: Wanted, *, alone: bool) -> Mask:
        """Tell, at the rows of roots, which trees could give what a group wants. alone: one provider all of it."""
        able = self._able(wanted, alone)
        each = [able & self._fitting(name, amount) for name, amount in wanted.resources.items()]
        each += [able & self._any(self._traits, some) for some in wanted.required]
        if alone:
            each = [np.logical_and.reduce([able, *each])]
        could = self._is_root.copy()
        if not alone:  # whoever serves several together serves no tree whose root is where it must not be
            could &= ~self._own_members(wanted.not_member_of)
        for mask in each:
            could &= self._trees_with(mask)
        return could

    def _able(self, wanted: Wanted, alone: bool) -> Mask:
        """Tell which providers are not hindered. Where several serve together, each is also where its root is."""
        members = self._own_members if alone else self._members
        able = ~self._any(self._traits, wanted.forbidden) & ~self._own_members(wanted.not_member_of)
        for some in wanted.member_of:
            able &= members(some)
        if wanted.in_tree is not None:
            node = self.nodes.get(wanted.in_tree)
            able &= self._root_row == (self._rows[node.provider.root] if node else -1)
        return able

    def _fitting(self, name: str, amount: int) -> Mask:
        column = self._stocks.get(name)
        return column.fitting(amount) if column else np.zeros(self._room, np.bool_)

    def _any(self, table: dict[str, Mask], names: Iterable[str]) -> Mask:
        masks = [table[name] for name in names if name in table]
        return np.logical_or.reduce(masks) if masks else np.zeros(self._room, np.bool_)

    def _members(self, aggregates: Iterable[str]) -> Mask:
        """Tell which providers are in one of these aggregates, themselves or by their root."""
        own = self._own_members(aggregates)
        return own | own[self._root_row]

    def _own_members(self, aggregates: Iterable[str]) -> Mask:
        return self._any(self._aggregates, aggregates)

    def _trees_with(self, mask: Mask) -> Mask:
        """Tell, at the rows of roots, which trees have such a provider; if a sharing one is such, any tree might."""
        if SHARING in self._traits and bool((mask & self._traits[SHARING]).any()):
            return np.ones(self._room, np.bool_)
        trees = np.zeros(self._room, np.bool_)
        trees[self._root_row[mask]] = True
        return trees
