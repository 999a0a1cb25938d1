"""Cells that this process recently found unreachable. Nothing is stored."""

from whimbrel.domain.ids import CellName


class UnreachableCells:
    """Unreachable cells, each with the time until which requests skip it."""

    def __init__(self) -> None:
        self._until: dict[CellName, float] = {}

    def begin(self, cell: CellName, until: float) -> None:
        """Mark a cell as unreachable."""
        self._until[cell] = until

    def lasts(self, cell: CellName, now: float) -> bool:
        return self._until.get(cell, now) > now
