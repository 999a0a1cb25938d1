"""Columns, with one row for each provider: what an index does arithmetic on."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.inventory import MAX_INT, Stock
from whimbrel.ports.arrays import Mask, Numbers

NOTHING = (-1, 1, 0, 1, 0, 0)
"""The row of a provider that has no inventory of a class: nothing fits."""

MOST_SEATED = 4
"""Of how many tuples of providers it is kept where they are: who decides asks for the same one again and again."""

MOST_KEPT = 16
"""Of how many amounts of a class is kept who could give them."""

_MOST = 2**62
"""What is shown of numbers that are larger than a column can hold."""


class Stocks:
    """The numbers of one resource class."""

    def __init__(self, room: int) -> None:
        self._columns: Numbers = np.tile(np.array(NOTHING, np.int64)[:, None], room)
        self._has_steps = False  # whether any inventory was ever given in steps other than 1
        self._fitting: dict[int, Mask] = {}  # by amount, until anything changes: one search asks for it several times

    def clear(self, row: int) -> None:
        self._fitting.clear()
        self._columns[:, row] = NOTHING

    def fill(self, rows: list[int], stocks: list[Stock]) -> None:
        self._fitting.clear()
        known: dict[int, tuple[int, ...]] = {}  # many hosts have the very same
        for stock in stocks:
            if id(stock) not in known:
                known[id(stock)] = _row_of(stock)
        self._columns[:, rows] = np.array([known[id(stock)] for stock in stocks], np.int64).T
        self._has_steps = self._has_steps or any(row[3] != 1 for row in known.values())

    def grow(self, more: int) -> None:
        self._fitting.clear()
        self._columns = np.concatenate([self._columns, Stocks(more)._columns], axis=1)

    def fitting(self, amount: int) -> Mask:
        """Tell who could give so much now. Not to be written to."""
        if (fits := self._fitting.get(amount)) is None:
            if len(self._fitting) >= MOST_KEPT:
                self._fitting.clear()
            fits = self._fitting[amount] = self._fit(min(amount, MAX_INT + 1))  # more than any provider gives at once
        return fits

    def _fit(self, amount: int) -> Mask:
        free, least, most, step = self._columns[:4]
        fits: Mask = (free >= amount) & (least <= amount) & (most >= amount)
        return fits & (amount % step == 0) if self._has_steps else fits

    # Each as it is now, not to be written to

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
    # The room of a large ratio is larger than any number that a column can hold, and than any amount.
    has, capacity = stock.inventory, stock.capacity
    free = max(-1, min(capacity - stock.used, MAX_INT))
    return free, has.min_unit, has.max_unit, has.step_size, min(stock.used, _MOST), min(capacity, _MOST)


class Flags:
    """Who has which names, such as traits."""

    def __init__(self) -> None:
        self._room = 0
        self._of: dict[str, Mask] = {}

    def grow(self, more: int) -> None:
        self._room += more
        for name in self._of:
            self._of[name] = np.concatenate([self._of[name], np.zeros(more, np.bool_)])

    def clear(self, names: Iterable[str], row: int) -> None:
        for name in names:
            self._of[name][row] = False

    def set(self, rows_of: dict[frozenset[str], list[int]]) -> None:
        """Flag rows with all names of a set: many providers have the very same."""
        by_name: dict[str, list[int]] = {}
        for names, rows in rows_of.items():
            for name in names:
                by_name.setdefault(name, []).extend(rows)
        for name, rows in by_name.items():
            if name not in self._of:
                self._of[name] = np.zeros(self._room, np.bool_)
            self._of[name][rows if len(rows) > 1 else rows[0]] = True  # one alone is much faster so

    def __contains__(self, name: str) -> bool:
        """Tell whether anybody has, or had it."""
        return name in self._of

    def any(self, names: Iterable[str]) -> Mask:
        """Tell who has one of these."""
        masks = [self._of[name] for name in names if name in self._of]
        found = np.zeros(self._room, np.bool_)
        for mask in masks:  # mostly one: numpy's own reduction takes longer to begin
            found |= mask
        return found

    def at(self, name: str, rows: Numbers) -> Mask:
        has: Mask = self._of[name].take(rows) if name in self._of else np.zeros(len(rows), np.bool_)
        return has


class Trees(NamedTuple):
    """Which rows are of one tree, and which ones share with it."""

    is_root: Mask
    root_row: Numbers  # by row
    shared: Sequence[tuple[int, Mask]]  # rows that share, and with whom

    def most(self, column: Numbers) -> Numbers:
        """Give, at the rows of roots, the most that any of the tree has, or who shares with it."""
        most = column.copy()
        below = np.flatnonzero(~self.is_root & (column > 0))
        np.maximum.at(most, self.root_row[below], column[below])
        for row, members in self.shared:
            beside = self.root_row[members]
            most[beside] = np.maximum(most[beside], column[row])
        return most

    def any(self, mask: Mask) -> Mask:
        """Tell, at the rows of roots, in which trees such a row is, or shares with it."""
        if not self.shared and not (mask & ~self.is_root).any():
            return mask
        return self.most(mask.astype(np.int64)) > 0


class _Seated(NamedTuple):
    whose: Sequence[ProviderId]
    layout: int
    rows: Numbers


class Seats:
    """Which rows are whose: of the last few tuples it is known until the layout changes."""

    def __init__(self) -> None:
        self._known: list[_Seated] = []  # the latest first

    def of(self, whose: Sequence[ProviderId], row: Mapping[ProviderId, int], nowhere: int, layout: int) -> Numbers:
        for seated in self._known:
            if seated.whose is whose and seated.layout == layout:
                return seated.rows
        rows = np.fromiter((row.get(uuid, nowhere) for uuid in whose), np.int64, len(whose))
        if isinstance(whose, tuple):  # other things might change and still be the same
            others = [seated for seated in self._known if seated.whose is not whose]
            self._known = [_Seated(whose, layout, rows), *others][:MOST_SEATED]
        return rows
