"""The stores of the one maintenance that a simulation executes: its items are read once, and remembered.

Invariant: a simulation has one process, so what it has written is what it would read. A round costs what it does, and
not the number of items.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.adapters.sql.global_.maintenances import SqlMaintenances
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.maintenance_plan import Maintenance, MaintenanceItem
from whimbrel.domain.run import Action, Facts, Run
from whimbrel.ports.stores.journal import ItemStart


class RememberedMaintenances(SqlMaintenances):
    """Implements ports.stores.maintenances.Maintenances."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._items: dict[int, MaintenanceItem] = {}

    async def items(self, maintenance_id: str) -> list[MaintenanceItem]:
        if not self._items:
            self._items = {item.position: item for item in await super().items(maintenance_id)}
        return list(self._items.values())

    async def save(
        self,
        maintenance: Maintenance,
        items: Sequence[MaintenanceItem] = (),
        *,
        added: Sequence[MaintenanceItem] = (),
        takes_hosts: bool = False,
    ) -> Maintenance:
        saved = await super().save(maintenance, items, added=added, takes_hosts=takes_hosts)
        self._items |= {item.position: item for item in (*items, *added)}
        return saved

    def began(self, start: ItemStart, run: Run[Any], now: float) -> None:
        """Remember that the journal has bound a run to an item."""
        item = self._items[start.position]
        self._items[start.position] = replace(item, state="moving", run_id=run.id, started_at=now, reason=start.reason)


class PlanJournal(SqlJournal):
    """A journal that tells `maintenances` which items begin."""

    def __init__(self, db: Database, maintenances: RememberedMaintenances) -> None:
        super().__init__(db, SAGAS)
        self._maintenances = maintenances

    async def accept(
        self, run: Run[Facts], action: Action, *booked: Any, item: ItemStart | None = None, **named: Any
    ) -> Run[Facts]:
        more = {**named, "item": item}
        accepted = await super().accept(run, action, *booked, **more)
        if item:
            self._maintenances.began(item, accepted, accepted.created_at)
        return accepted
