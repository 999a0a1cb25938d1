"""All providers in memory, in columns: trees that can hold a candidate are found by arithmetic on arrays.

Invariant: the index is disposable, and trees that it leaves out cannot hold a candidate; the search checks the
others exactly, and the claim checks again. A column has one number for each provider; rows of removed providers are
reused. The order of trees is shuffled once, by a seed, and each request starts at another position, so that the
first hosts differ.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

import numpy as np

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.columns import Flags, RowCache, Stocks, Trees
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Node
from whimbrel.placement.search import SHARING, UNNAMED, Request, Wanted
from whimbrel.placement.unique_fit import MOST_PARTS, Cut, UniqueFits
from whimbrel.ports.arrays import Mask, Numbers

Derived = TypeVar("Derived")

MOST_DERIVED = 20_000
"""Cached values derived from providers, of each kind."""

FIRST_SIZE = 64
"""Initial rows of an index; they double when full."""


class Index:
    """Implements search.ProviderIndex, for any number of providers."""

    def __init__(self, nodes: Iterable[Node], rng: Random) -> None:
        self.nodes: dict[ProviderId, Node] = {}
        self.version = 0
        self._trees: dict[ProviderId, dict[ProviderId, Node]] = {}
        self._rng = rng
        self._size = 0
        self._rows: dict[ProviderId, int] = {}
        self._uuids: list[ProviderId] = []  # by row
        self._unused: list[int] = []
        self._layout = 0  # changes whenever a provider gets another row, or none
        self._row_cache = RowCache()
        self._root_row: Numbers = np.zeros(0, np.int64)
        self._is_root: Mask = np.zeros(0, np.bool_)
        self._stocks: dict[str, Stocks] = {}
        self._no_stocks = Stocks(0)  # the columns of a class that no provider has
        self.traits = Flags()
        self.aggregates = Flags()
        self._order: Numbers = np.zeros(0, np.int64)  # the order of rows in which trees are offered
        self._derived: dict[Callable[[Node], Any], dict[ProviderId, Any]] = {}
        self._grow(FIRST_SIZE)
        self._nowhere = self._unused.pop()  # the row of missing providers
        self.apply((), nodes)

    # Updates

    def apply(self, touched: Iterable[ProviderId], nodes: Iterable[Node]) -> None:
        """Update these providers; those that were touched and are not among the nodes are removed."""
        self.version += 1
        now = {node.provider.uuid: node for node in nodes}
        for uuid in {*touched, *now}:
            if old := self.nodes.pop(uuid, None):
                self._clear(old)
            if uuid not in now and uuid in self._rows:
                self._unused.append(self._rows.pop(uuid))
                self._layout += 1
        for node in now.values():
            self._place(node)
        self._fill(now.values())

    def _clear(self, node: Node) -> None:
        row, tree = self._rows[node.provider.uuid], self._trees[node.provider.root]
        del tree[node.provider.uuid]
        if not tree:
            del self._trees[node.provider.root]
        self._is_root[row] = False
        for derived in self._derived.values():
            derived.pop(node.provider.uuid, None)
        for name in node.stocks:
            self._stocks[name].clear(row)
        self.traits.clear(node.traits, row)
        self.aggregates.clear(node.aggregates, row)

    def _place(self, node: Node) -> None:
        provider = node.provider
        row = self._row(provider.uuid)
        root_row = self._row(provider.root)  # may grow the columns: look them up afterwards
        self.nodes[provider.uuid] = node
        self._trees.setdefault(provider.root, {})[provider.uuid] = node
        self._root_row[row], self._is_root[row] = root_row, root_row == row

    def _fill(self, nodes: Iterable[Node]) -> None:
        """Fill the columns of these providers, column by column, which is much faster than by provider."""
        stocks: dict[str, tuple[list[int], list[Stock]]] = {}
        traits: dict[frozenset[str], list[int]] = {}
        aggregates: dict[frozenset[str], list[int]] = {}
        for node in nodes:
            row = self._rows[node.provider.uuid]
            for name, stock in node.stocks.items():
                rows, their = stocks.setdefault(name, ([], []))
                rows.append(row)
                their.append(stock)
            traits.setdefault(node.traits, []).append(row)
            aggregates.setdefault(node.aggregates, []).append(row)
        for name, (rows, their) in stocks.items():
            if name not in self._stocks:
                self._stocks[name] = Stocks(self._size)
            self._stocks[name].fill(rows, their)
        self.traits.set(traits)
        self.aggregates.set(aggregates)

    def _row(self, uuid: ProviderId) -> int:
        if uuid not in self._rows:
            if not self._unused:
                self._grow(self._size)
            self._rows[uuid] = self._unused.pop()
            self._uuids[self._rows[uuid]] = uuid
            self._layout += 1
        return self._rows[uuid]

    def _grow(self, more: int) -> None:
        self._unused += range(self._size + more - 1, self._size - 1, -1)
        self._size += more
        self._uuids += [ProviderId("")] * more
        self._root_row = np.concatenate([self._root_row, np.zeros(more, np.int64)])
        self._is_root = np.concatenate([self._is_root, np.zeros(more, np.bool_)])
        for column in (*self._stocks.values(), self._no_stocks):
            column.grow(more)
        self.traits.grow(more)
        self.aggregates.grow(more)
        self._order = np.frombuffer(self._rng.randbytes(8 * self._size), np.uint64).argsort()

    # Queries

    def rows_of(self, uuids: Sequence[ProviderId]) -> Numbers:
        """Return the rows of these providers in all columns. A missing provider has the empty row."""
        return self._row_cache.of(uuids, self._rows, self._nowhere, self._layout)

    def is_root(self, rows: Numbers) -> Mask:
        roots: Mask = self._is_root.take(rows)
        return roots

    def trees(self) -> Trees:
        """Return the tree of each row, and the sharing rows."""
        shared = [(self._rows[node.provider.uuid], self._own_members(node.aggregates)) for node in self.sharing()]
        return Trees(self._is_root, self._root_row, shared)

    def stocks(self, name: str) -> Stocks:
        """Return the columns of a class, also if no provider has it."""
        return self._stocks.get(name, self._no_stocks)

    def tree(self, root: ProviderId) -> Collection[Node]:
        return self._trees[root].values()

    def tree_of(self, uuid: ProviderId) -> Collection[Node]:
        """Return the whole tree of a provider, or nothing if it does not exist."""
        node = self.nodes.get(uuid)
        return self.tree(node.provider.root) if node else ()

    def derived(self, nodes: Iterable[Node], make: Callable[[Node], Derived]) -> dict[ProviderId, Derived]:
        """Return a value made from each of these providers, cached until the provider changes."""
        known: dict[ProviderId, Derived] = self._derived.setdefault(make, {})
        if len(known) >= MOST_DERIVED:
            known.clear()
        given = {}
        for node in nodes:
            uuid = node.provider.uuid
            if (made := known.get(uuid)) is None:
                made = known[uuid] = make(node)
            given[uuid] = made
        return given

    def sharing(self) -> Sequence[Node]:
        rows = np.flatnonzero(self.traits.any([SHARING]))
        return [self.nodes[self._uuids[row]] for row in rows.tolist()]

    def roots(self, request: Request) -> Iterator[ProviderId]:
        """Yield the roots of the trees that can hold a candidate, starting at a random position."""
        could = self.could_hold(request)
        found = self._order[could[self._order]]
        if len(found):
            found = np.roll(found, -self._rng.randrange(len(found)))
        for start in range(0, len(found), 256):
            yield from map(self._uuids.__getitem__, found[start : start + 256].tolist())

    def still_roots(self, roots: Sequence[ProviderId], request: Request) -> list[ProviderId]:
        could = self.could_hold(request)
        return [root for root in roots if root in self._rows and could[self._rows[root]]]

    def could_hold(self, request: Request) -> Mask:
        """Return, at the rows of roots, which trees can hold a candidate."""
        could = self._permitted_roots(request)
        for suffix, wanted in request.groups.items():
            could &= self._could_hold(wanted, alone=suffix != UNNAMED)
        return could

    def alone(self, request: Request, *, unused: bool = False) -> Mask:
        """Return, at the rows of roots, which roots can serve the whole unnamed group alone.

        unused: if nothing were used of them.
        """
        wanted = request.groups[UNNAMED]
        able = self._permitted_roots(request) & self._able(wanted, alone=True)
        for some in wanted.required:
            able &= self.traits.any(some)
        for name, amount in wanted.resources.items():
            able &= self._fitting(name, amount, unused=unused)
        return able

    def _permitted_roots(self, request: Request) -> Mask:
        permitted = self._is_root & ~self.traits.any(request.root_forbidden)
        permitted &= ~self._own_members(request.root_not_member_of)
        for some in request.root_required:
            permitted &= self.traits.any(some)
        for some in request.root_member_of:
            permitted &= self._own_members(some)
        return permitted

    def unique_fits(self, request: Request, cut: Cut) -> Callable[[ProviderId], Sequence[ProviderId] | None]:
        has_amounts = all(resources for _, resources in cut)  # only amounts exclude unused rows
        if not (has_amounts and request.nested and len(cut) <= MOST_PARTS):
            return _unknown
        if UNNAMED in request.groups and len(request.groups[UNNAMED].member_of) > 1:
            return _unknown
        unhindered = {suffix: self._unhindered(suffix, wanted) for suffix, wanted in request.groups.items()}
        able = [
            np.logical_and.reduce([unhindered[suffix], *itertools.starmap(self._fitting, resources.items())])
            for suffix, resources in cut
        ]
        unique_fits = UniqueFits(self._root_row, able)
        unique_fits.keep_to(request, cut, self.traits.any)

        def unique_fit(root: ProviderId) -> Sequence[ProviderId] | None:
            rows = unique_fits.at(self._rows[root])
            return [self._uuids[row] for row in rows] if rows else None

        return unique_fit

    def _unhindered(self, suffix: str, wanted: Wanted) -> Mask:
        """Return exactly which providers may serve a group, regardless of amounts; as `_able` in tree_search.py."""
        able = self._able(wanted, suffix != UNNAMED)
        if suffix == UNNAMED:
            able &= ~self._own_members(wanted.not_member_of)[self._root_row]
        else:
            for some in wanted.required:
                able &= self.traits.any(some)
        return able

    def _could_hold(self, wanted: Wanted, *, alone: bool) -> Mask:
        """Return, at the rows of roots, which trees can serve a group. alone: one provider must serve all of it."""
        able = self._able(wanted, alone)
        each = [able & self._fitting(name, amount) for name, amount in wanted.resources.items()]
        each += [able & self.traits.any(some) for some in wanted.required]
        if alone:
            each = [np.logical_and.reduce([able, *each])]
        could = self._is_root.copy()
        if not alone:  # a root in a forbidden aggregate excludes its tree if several providers may serve
            could &= ~self._own_members(wanted.not_member_of)
        for mask in each:
            could &= self._trees_with(mask)
        return could

    def _able(self, wanted: Wanted, alone: bool) -> Mask:
        """Return the eligible providers. If several serve together, each also counts as a member where its root is."""
        members = self._own_members if alone else self._members
        able = ~self.traits.any(wanted.forbidden) & ~self._own_members(wanted.not_member_of)
        for some in wanted.member_of:
            able &= members(some)
        if wanted.in_tree is not None:
            node = self.nodes.get(wanted.in_tree)
            able &= self._root_row == (self._rows[node.provider.root] if node else -1)
        return able

    def _fitting(self, name: str, amount: int, *, unused: bool = False) -> Mask:
        column = self.stocks(name)
        return column.fitting_if_unused(amount) if unused else column.fitting(amount)

    def _members(self, aggregates: Iterable[str]) -> Mask:
        """Return which providers are in one of these aggregates, themselves or by their root."""
        own = self._own_members(aggregates)
        return own | own[self._root_row]

    def _own_members(self, aggregates: Iterable[str]) -> Mask:
        return self.aggregates.any(aggregates)

    def _trees_with(self, mask: Mask) -> Mask:
        """Return, at the rows of roots, which trees have such a provider; if a sharing one matches, any tree might."""
        if SHARING in self.traits and bool((mask & self.traits.any([SHARING])).any()):
            return np.ones(self._size, np.bool_)
        if len(self._trees) == len(self.nodes):
            return mask  # each provider is a tree
        trees = np.zeros(self._size, np.bool_)
        trees[self._root_row[mask]] = True
        return trees


def _unknown(_root: ProviderId) -> None:
    return None
