"""Which cells a process has found down a moment ago. It is only what this process has seen; nothing is stored."""

from whimbrel.domain.ids import CellName


class UnreachableCells:
    """Cells that made somebody wait in vain, and until when nobody else is to."""

    def __init__(self) -> None:
        self._until: dict[CellName, float] = {}

    def begin(self, cell: CellName, until: float) -> None:
        """Note that a cell does not answer."""
        self._until[cell] = until

    def lasts(self, cell: CellName, now: float) -> bool:
        return self._until.get(cell, now) > now
