"""How uneven the use of hosts is, and which moves make it more even, the best first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush

import numpy as np

from whimbrel.maintenance.host_shares import HostShares
from whimbrel.ports.arrays import Floats, Numbers

ROUNDING = 1e-9
NO_CHANGE = 1e-12
"""Of a sum of squares of shares."""
PLACES = 12
"""Changes that are equal to so many decimal places are equal."""
PAIRS = 200_000
"""How many pairs of a kind of servers and a host are computed at a time: it bounds the memory, 100 bytes each."""


@dataclass(frozen=True, eq=False)
class Unevenness:
    """The squares of what lies outside of a band around the common share of each resource, over all hosts.

    spread: the width of the band, as a share. If nothing is outside, the shares differ by no more.
    """

    shares: HostShares
    spread: float

    @property
    def is_acceptable(self) -> bool:
        return bool((self.shares.spreads <= self.spread + ROUNDING).all())

    def is_no_wider(self, after: HostShares) -> bool:
        """Check whether no spread is both wider than it was and than asked for."""
        return bool((after.spreads <= np.maximum(self.shares.spreads, self.spread) + ROUNDING).all())

    @property
    def may_end_by_one_move(self) -> bool:
        """Check whether the shares would be acceptable without some two hosts: a move changes those of two."""
        for column in self.shares.shares.T:
            known = np.sort(column[~np.isnan(column)])
            left = [known[low : len(known) + low - 2] for low in range(3)] if len(known) > 3 else []
            if left and min(each[-1] - each[0] for each in left) > self.spread + ROUNDING:
                return False
        return True

    def of_leaving(self, needs: Floats, sources: Numbers) -> Floats:
        """Return for each server how its end on its host changes it. sources: rows of hosts."""
        used, capacity = self.shares.used[sources], self._capacity[sources]
        return np.round(self._outside((used - needs) / capacity) - self._outside(used / capacity), PLACES)

    def of_arriving(self, needs: Floats, targets: Numbers) -> Floats:
        """Return for each need (row) and target (column) how its arrival there changes it."""
        used, capacity = self.shares.used[targets], self._capacity[targets]
        before, changes = self._outside(used / capacity), np.empty((len(needs), len(targets)))
        at_once = max(1, PAIRS // max(1, len(targets)))
        for first in range(0, len(needs), at_once):
            some = needs[first : first + at_once, None]
            changes[first : first + at_once] = self._outside((used[None] + some) / capacity[None]) - before[None]
        return np.round(changes, PLACES)

    @cached_property
    def _capacity(self) -> Floats:
        return np.where(self.shares.capacity > 0, self.shares.capacity, np.nan)

    @cached_property
    def _common(self) -> Floats:
        """Return the share of each resource that is used of all hosts together: no move changes it."""
        total = self.shares.capacity.sum(axis=0)
        common: Floats = self.shares.used.sum(axis=0) / np.where(total > 0, total, 1.0)
        return common

    def _outside(self, shares: Floats) -> Floats:
        beyond = np.maximum(0.0, np.abs(shares - self._common) - self.spread / 2)
        outside: Floats = np.where(np.isnan(beyond), 0.0, beyond**2).sum(axis=-1)
        return outside


class MoveOrder:
    """Orders the moves of servers to other hosts by how they change the unevenness.

    Servers with equal needs are of one kind. A change is the sum of that of the end on a host and that of the arrival
    of a kind on another one, so not all pairs are computed: after a move only those of its two hosts, and the best
    ones are found by two sorted lists for each kind.
    """

    def __init__(self, now: Unevenness, needs: Floats, sources: Sequence[int]) -> None:
        """needs: of the servers, by row. sources: rows of their hosts."""
        self._needs, self._sources = needs, np.array(sources, np.int64)
        self._kinds, kind_of = np.unique(needs, axis=0, return_inverse=True)
        self._kind_of: Numbers = kind_of.reshape(-1)
        self._stays = np.ones(len(sources), np.bool_)
        self._leaving = now.of_leaving(needs, self._sources)
        self._arriving = now.of_arriving(self._kinds, np.arange(len(now.shares.hosts)))

    def moved(self, row: int, target: int, now: Unevenness) -> None:
        """Note that a server has moved, to no more, and what the unevenness is now."""
        self._stays[row] = False
        hosts = np.array((int(self._sources[row]), target))
        self._arriving[:, hosts] = now.of_arriving(self._kinds, hosts)
        there = np.flatnonzero(np.isin(self._sources, hosts))
        self._leaving[there] = now.of_leaving(self._needs[there], self._sources[there])

    def best(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield rows of servers and of hosts: the moves for the better, the best first. Equal ones are in order."""
        leavers, targets = self._leavers(), dict[int, list[int]]()
        best = self._arriving.argmin(axis=1)
        heap = [self._entry(rows[0], int(best[kind]), kind, 0, 0) for kind, rows in leavers.items()]
        heapify(heap)
        while heap and most:
            value, row, column, kind, i, j = heappop(heap)
            if value >= -NO_CHANGE:
                return
            if kind not in targets:
                targets[kind] = np.argsort(self._arriving[kind], kind="stable").tolist()
            if j + 1 < len(targets[kind]):
                heappush(heap, self._entry(row, targets[kind][j + 1], kind, i, j + 1))
            if j == 0 and i + 1 < len(leavers[kind]):
                heappush(heap, self._entry(leavers[kind][i + 1], column, kind, i + 1, 0))
            if column != self._sources[row]:
                most -= 1
                yield row, column

    def _leavers(self) -> dict[int, list[int]]:
        """Return the servers of each kind of which some move is for the better, the best to leave first."""
        lowest = self._arriving.min(axis=1)[self._kind_of]
        rows = np.flatnonzero(self._stays & (self._leaving + lowest < -NO_CHANGE))
        rows = rows[np.lexsort((self._leaving[rows], self._kind_of[rows]))]
        kinds, first = np.unique(self._kind_of[rows], return_index=True)
        parts = np.split(rows, first[1:])
        return {kind: part.tolist() for kind, part in zip(kinds.tolist(), parts, strict=True)} if len(rows) else {}

    def _entry(self, row: int, column: int, kind: int, i: int, j: int) -> tuple[float, int, int, int, int, int]:
        value = round(float(self._leaving[row] + self._arriving[kind, column]), PLACES)
        return value, row, column, kind, i, j
