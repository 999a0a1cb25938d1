"""Trees with at most one assignment of a request, found for all trees at once by arithmetic on columns.

Invariant: results equal those of the search; where columns do not suffice, there is no result, and the search runs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from whimbrel.placement.search import UNNAMED, Request
from whimbrel.ports.arrays import Mask, Numbers

Cut = Sequence[tuple[str, Mapping[str, int]]]
"""The parts of a request: group suffix and resources that one provider must serve at once."""

MOST_PARTS = 16
"""Maximum number of parts: each is compared with each other."""


class UniqueFits:
    """The row of the only provider that can serve each part, at the rows of the roots."""

    def __init__(self, root_row: Numbers, able: Iterable[Mask]) -> None:
        """able: for each part, the providers that can serve it alone."""
        self._only: list[Numbers] = []
        self.are_sure: Mask = np.ones(len(root_row), np.bool_)
        for mask in able:
            rows = np.flatnonzero(mask)
            roots = root_row[rows]
            only = np.zeros(len(root_row), np.int64)
            only[roots] = rows
            self._only.append(only)
            self.are_sure &= np.bincount(roots, minlength=len(root_row)) == 1

    def keep_to(self, request: Request, cut: Cut, having: Callable[[Iterable[str]], Mask]) -> None:
        """Exclude trees where a rule between parts might forbid the fit. having: rows with one of these traits."""
        named = [only for only, (suffix, _) in zip(self._only, cut, strict=True) if suffix != UNNAMED]
        if request.group_policy == "isolate":
            for one, other in combinations(named, 2):
                self.are_sure &= one != other
        for some in request.groups[UNNAMED].required if UNNAMED in request.groups else ():
            has = having(some)
            self.are_sure &= np.logical_or.reduce([has[only] for only in self._of(cut, {UNNAMED})])
        for suffixes in request.same_subtree:
            of = self._of(cut, suffixes)
            if len(of) > 1:
                self.are_sure &= _is_same(of) | _has_root(of)

    def _of(self, cut: Cut, suffixes: Iterable[str]) -> list[Numbers]:
        return [only for only, (suffix, _) in zip(self._only, cut, strict=True) if suffix in suffixes]

    def at(self, row: int) -> list[int] | None:
        """Return the rows of the providers of the parts in the tree with its root at this row, or None if unknown."""
        return [int(only[row]) for only in self._only] if self.are_sure[row] else None


def _is_same(of: Sequence[Numbers]) -> Mask:
    same: Mask = np.logical_and.reduce([only == of[0] for only in of[1:]])
    return same


def _has_root(of: Sequence[Numbers]) -> Mask:
    rows = np.arange(len(of[0]))
    has: Mask = np.logical_or.reduce([only == rows for only in of])
    return has
