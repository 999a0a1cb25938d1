"""Columns with one row for each provider, for arithmetic in the index."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.inventory import MAX_INT, Stock
from whimbrel.ports.arrays import Mask, Numbers

NOTHING = (-1, 1, 0, 1, 0, 0)
"""The row of a provider without an inventory of the class: nothing fits."""

MOST_CACHED_ROWS = 4
"""Tuples of providers with cached rows: decisions use the same one repeatedly."""

MOST_CACHED_MASKS = 16
"""Amounts of a class with a cached mask."""

_MOST = 2**62
"""Shown instead of numbers that are too large for a column."""


class Stocks:
    """The numbers of one resource class."""

    def __init__(self, size: int) -> None:
        self._columns: Numbers = np.tile(np.array(NOTHING, np.int64)[:, None], size)
        self._has_steps = False  # whether any inventory has a step size other than 1
        self._fitting: dict[int, Mask] = {}  # amount -> mask, until a change: one search needs it several times

    def clear(self, row: int) -> None:
        self._fitting.clear()
        self._columns[:, row] = NOTHING

    def fill(self, rows: list[int], stocks: list[Stock]) -> None:
        self._fitting.clear()
        known: dict[int, tuple[int, ...]] = {}  # many hosts share the same stock
        for stock in stocks:
            if id(stock) not in known:
                known[id(stock)] = _row_of(stock)
        self._columns[:, rows] = np.array([known[id(stock)] for stock in stocks], np.int64).T
        self._has_steps = self._has_steps or any(row[3] != 1 for row in known.values())

    def grow(self, more: int) -> None:
        self._fitting.clear()
        self._columns = np.concatenate([self._columns, Stocks(more)._columns], axis=1)

    def fitting(self, amount: int) -> Mask:
        """Return which providers can serve this amount now. Read-only."""
        if (fits := self._fitting.get(amount)) is None:
            if len(self._fitting) >= MOST_CACHED_MASKS:
                self._fitting.clear()
            fits = self._fitting[amount] = self._fit(amount, self.free)
        return fits

    def fitting_if_unused(self, amount: int) -> Mask:
        """Return which providers could serve this amount if nothing were used of them."""
        return self._fit(amount, self.capacity)

    def _fit(self, amount: int, available: Numbers) -> Mask:
        amount = min(amount, MAX_INT + 1)  # more than any provider serves at once
        _, least, most, step = self._columns[:4]
        fits: Mask = (available >= amount) & (least <= amount) & (most >= amount)
        return fits & (amount % step == 0) if self._has_steps else fits

    # Current columns, read-only

    @property
    def free(self) -> Numbers:
        return self._column(0)

    @property
    def most(self) -> Numbers:
        return self._column(2)

    @property
    def used(self) -> Numbers:
        return self._column(4)

    @property
    def capacity(self) -> Numbers:
        return self._column(5)

    def _column(self, number: int) -> Numbers:
        column: Numbers = self._columns[number]
        return column


def _row_of(stock: Stock) -> tuple[int, ...]:
    # With a large ratio, the capacity exceeds the range of a column, and any amount.
    has, capacity = stock.inventory, stock.capacity
    free = max(-1, min(capacity - stock.used, MAX_INT))
    return free, has.min_unit, has.max_unit, has.step_size, min(stock.used, _MOST), min(capacity, _MOST)


class Flags:
    """Which rows have which names, such as traits."""

    def __init__(self) -> None:
        self._size = 0
        self._of: dict[str, Mask] = {}

    def grow(self, more: int) -> None:
        self._size += more
        for name in self._of:
            self._of[name] = np.concatenate([self._of[name], np.zeros(more, np.bool_)])

    def clear(self, names: Iterable[str], row: int) -> None:
        for name in names:
            self._of[name][row] = False

    def set(self, rows_of: dict[frozenset[str], list[int]]) -> None:
        """Set all names of each set in its rows: many providers share the same set."""
        by_name: dict[str, list[int]] = {}
        for names, rows in rows_of.items():
            for name in names:
                by_name.setdefault(name, []).extend(rows)
        for name, rows in by_name.items():
            if name not in self._of:
                self._of[name] = np.zeros(self._size, np.bool_)
            self._of[name][rows if len(rows) > 1 else rows[0]] = True  # a single index is much faster

    def __contains__(self, name: str) -> bool:
        """Check whether a row has, or had, the name."""
        return name in self._of

    def any(self, names: Iterable[str]) -> Mask:
        """Return which rows have one of these names."""
        masks = [self._of[name] for name in names if name in self._of]
        found = np.zeros(self._size, np.bool_)
        for mask in masks:  # usually one: numpy's own reduction has more overhead
            found |= mask
        return found

    def at(self, name: str, rows: Numbers) -> Mask:
        has: Mask = self._of[name].take(rows) if name in self._of else np.zeros(len(rows), np.bool_)
        return has


class Trees(NamedTuple):
    """The tree of each row, and the sharing rows."""

    is_root: Mask
    root_row: Numbers  # by row
    shared: Sequence[tuple[int, Mask]]  # (sharing row, rows that it shares with)

    def most(self, column: Numbers) -> Numbers:
        """Return, at the rows of roots, the maximum over the tree and the providers that share with it."""
        most = column.copy()
        below = np.flatnonzero(~self.is_root & (column > 0))
        np.maximum.at(most, self.root_row[below], column[below])
        for row, members in self.shared:
            beside = self.root_row[members]
            most[beside] = np.maximum(most[beside], column[row])
        return most

    def any(self, mask: Mask) -> Mask:
        """Return, at the rows of roots, whether the tree or a provider that shares with it has such a row."""
        if not self.shared and not (mask & ~self.is_root).any():
            return mask
        return self.most(mask.astype(np.int64)) > 0


class _CachedRows(NamedTuple):
    providers: Sequence[ProviderId]
    layout: int
    rows: Numbers


class RowCache:
    """A cache of the rows of the last few tuples of providers, valid until the layout changes."""

    def __init__(self) -> None:
        self._known: list[_CachedRows] = []  # the latest first

    def of(self, providers: Sequence[ProviderId], row: Mapping[ProviderId, int], nowhere: int, layout: int) -> Numbers:
        for cached in self._known:
            if cached.providers is providers and cached.layout == layout:
                return cached.rows
        rows = np.fromiter((row.get(uuid, nowhere) for uuid in providers), np.int64, len(providers))
        if isinstance(providers, tuple):  # mutable sequences could change and keep their identity
            others = [cached for cached in self._known if cached.providers is not providers]
            self._known = [_CachedRows(providers, layout, rows), *others][:MOST_CACHED_ROWS]
        return rows
