"""Facts of a repair: the announced actions, those of them that are still due, and the claim."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import field

from whimbrel.domain.ids import CellName, RunId
from whimbrel.domain.run import Run
from whimbrel.repair.actions import RepairAction
from whimbrel.repair.record_rewrite import Settled
from whimbrel.servers.allocations.allocation_repair import ClaimFacts

A = TypeVar("A", bound=RepairAction)


class RepairFacts(ClaimFacts, frozen=True, kw_only=True, omit_defaults=True):
    """cell, host: None: not a server with a host. waiting: the parked move that gets the lock.

    agreed: the announced actions. actions: those of them that are still due. settled: the new record. left_cell: the
    cell that had the record before, if not `cell`.
    """

    agreed: tuple[RepairAction, ...]
    actions: tuple[RepairAction, ...] = field(default=(), name="mends")
    waiting: RunId | None = None
    settled: Settled | None = None
    left_cell: CellName | None = None

    @property
    def cells(self) -> list[CellName]:
        """Return the cells in which the run may hold the lock."""
        return [cell for cell in (self.cell, self.left_cell) if cell]

    def of_kind(self, kind: type[A]) -> list[A]:
        return [action for action in self.actions if isinstance(action, kind)]


Repair = Run[RepairFacts]


def does(kind: type[RepairAction]) -> Callable[[RepairFacts], bool]:
    """Return the condition of a step: whether there is an action of this kind."""
    return lambda facts: bool(facts.of_kind(kind))


def has_record(facts: RepairFacts) -> bool:
    return facts.cell is not None


def changes_cell(facts: RepairFacts) -> bool:
    return facts.left_cell is not None
