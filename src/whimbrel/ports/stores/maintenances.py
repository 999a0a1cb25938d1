"""Maintenances and their items. Each method is one transaction.

Invariant: every change names the version of the maintenance that it was decided by, and an older one is refused. So
two conductors never exceed a budget together, and nothing starts after an abort.
"""

from collections.abc import Sequence
from typing import Protocol

from whimbrel.domain.maintenance_plan import Maintenance, MaintenanceItem, MaintenanceState


class Maintenances(Protocol):
    async def add(self, maintenance: Maintenance, items: Sequence[MaintenanceItem]) -> None: ...

    async def get(self, maintenance_id: str) -> Maintenance:
        """Raises: NotFound."""

    async def find(
        self,
        states: Sequence[MaintenanceState] | None = None,
        limit: int | None = None,
        *,
        ended_after: float = 0.0,
    ) -> list[Maintenance]:
        """Return those in these states (None: any), the newest first, without those that ended before."""

    async def items(self, maintenance_id: str) -> list[MaintenanceItem]:
        """Return the items in order of their positions."""

    async def save(
        self,
        maintenance: Maintenance,
        items: Sequence[MaintenanceItem] = (),
        *,
        added: Sequence[MaintenanceItem] = (),
        takes_hosts: bool = False,
    ) -> Maintenance:
        """Save a maintenance, these of its items and those that are added; return it with its new version.

        A move that starts is not saved here but in `Journal.accept`. takes_hosts: it has all hosts for which it was
        planned from now on, until it is over.
        Raises: Superseded: it has another version; Conflict: another maintenance has one of the hosts.
        """
