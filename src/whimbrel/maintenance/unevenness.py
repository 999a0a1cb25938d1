"""How uneven the use of hosts is, and what each possible move changes of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whimbrel.maintenance.host_shares import HostShares
from whimbrel.ports.arrays import Floats, Numbers

ROUNDING = 1e-9
NO_CHANGE = 1e-12
"""Of a sum of squares of shares."""
PAIRS = 200_000
"""How many pairs of a server and a host are compared at a time: it bounds the memory, about 100 bytes each."""


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

    async def best_moves(self, needs: Floats, sources: Sequence[int], most: int, pairs: int = PAIRS) -> Numbers:
        """Return rows of `needs` and of hosts: the moves for the better, the best first. Equal ones are in order.

        pairs: how many moves are compared at a time; others have their turn in between.
        """
        at_once = max(1, pairs // len(self.shares.hosts))
        moves, values = np.empty((0, 2), np.int64), np.empty(0)
        for first in range(0, len(sources), at_once):
            changes = self.changes(needs[first : first + at_once], sources[first : first + at_once])
            best = best_first(changes, most)
            moves = np.concatenate((moves, best + np.array((first, 0))))
            values = np.concatenate((values, changes[best[:, 0], best[:, 1]]))
            order = _order(moves, values)[:most]
            moves, values = moves[order], values[order]
            await asyncio.sleep(0)
        return moves

    def changes(self, needs: Floats, sources: Sequence[int]) -> Floats:
        """Return for each server (row) and host (column) how a move there changes it. sources: rows of hosts."""
        shares, rows = self.shares, np.array(sources, np.int64)
        capacity, used = np.where(shares.capacity > 0, shares.capacity, np.nan), shares.used
        before = self._outside(shares.shares)
        without = self._outside((used[rows] - needs) / capacity[rows]) - before[rows]
        with_it = self._outside((used[None] + needs[:, None]) / capacity[None]) - before[None]
        changes: Floats = without[:, None] + with_it
        changes[np.arange(len(rows)), rows] = 0.0
        return changes

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


def best_first(changes: Floats, most: int) -> Numbers:
    """Return the rows and columns of changes for the better. Equal ones are in the order of rows and columns."""
    moves = np.stack(np.nonzero(changes < -NO_CHANGE), axis=1)
    return moves[_order(moves, changes[moves[:, 0], moves[:, 1]])[:most]]


def _order(moves: Numbers, values: Floats) -> Numbers:
    order: Numbers = np.lexsort((moves[:, 1], moves[:, 0], np.round(values, 12)))
    return order
