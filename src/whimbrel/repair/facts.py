"""What a repair knows: what was said that it would do, what of that is still to be done, and the claim."""

from collections.abc import Callable

from whimbrel.domain.ids import CellName, RunId
from whimbrel.domain.run import Run
from whimbrel.repair.actions import Kind, Mend
from whimbrel.repair.record_rewrite import Settled
from whimbrel.servers.allocations.allocation_repair import ClaimFacts


class RepairFacts(ClaimFacts, frozen=True, kw_only=True, omit_defaults=True):
    """cell, host: None: it is no server that lives somewhere. waiting: the move that waits, and is to have the lock.

    settled: what the record is to say. left_cell: the cell that has the record before, if not `cell`.
    """

    agreed: tuple[Mend, ...]
    mends: tuple[Mend, ...] = ()
    waiting: RunId | None = None
    settled: Settled | None = None
    left_cell: CellName | None = None

    @property
    def cells(self) -> list[CellName]:
        """Return the cells in which the run may hold the lock."""
        return [cell for cell in (self.cell, self.left_cell) if cell]

    def of_kind(self, kind: Kind) -> list[Mend]:
        return [mend for mend in self.mends if mend.kind == kind]


Repair = Run[RepairFacts]


def does(kind: Kind) -> Callable[[RepairFacts], bool]:
    """Tell of facts whether something of this kind is to be done."""
    return lambda facts: bool(facts.of_kind(kind))


def has_record(facts: RepairFacts) -> bool:
    return facts.cell is not None


def changes_cell(facts: RepairFacts) -> bool:
    return facts.left_cell is not None
