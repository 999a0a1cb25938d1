"""Cells in the global database: there are few of them and they change rarely.

The last settings are stored beside the current values: where they differ, a command made the change, and it stays.
"""

from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.change_counter import Counting
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.urls import check_url
from whimbrel.adapters.sql.tables.global_ import cells
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.ids import CellName
from whimbrel.ports.stores.cells import CellInfo

_ALL = fixed(sa.select(cells))
_NAMED = cells.c.name == sa.bindparam("called")
_GET = fixed(sa.select(cells).where(_NAMED))
_LOCK = sa.select(cells).where(_NAMED).with_for_update()
_INSERT = sa.insert(cells)
_FORGET = sa.delete(cells).where(_NAMED)

_FOLLOWING = ("enabled", "physnets", "storage", "migration_network")
"""Columns that follow the settings until a command changes them."""


class SqlCells(Counting):
    """Implements ports.stores.cells.Cells."""

    async def all(self) -> list[CellInfo]:
        async with self._db.urgent.read() as tx:  # all decisions wait for it
            found = [_info(row) for row in await tx.rows(_ALL)]
        return sorted(found, key=lambda cell: cell.name)  # databases collate letters differently

    async def get(self, name: CellName) -> CellInfo:
        row = await self._db.row(_GET, {"called": name})
        if row is None:
            raise _missing(name)
        return _info(row)

    async def add(self, cell: CellInfo) -> None:
        if cell.database:
            check_url(cell.database)
        try:
            async with self._changing() as tx:
                await tx.run(_INSERT, {**_columns(cell), "settings": None})
        except Conflict:
            raise Conflict(f"There is a cell {cell.name} already.") from None

    async def ensure(self, said: CellInfo) -> CellInfo:
        try:
            return await self._ensured(said)
        except Conflict:  # another process wrote it first
            return await self._ensured(said)

    async def _ensured(self, said: CellInfo) -> CellInfo:
        says = {key: value for key, value in _columns(said).items() if key in _FOLLOWING}
        async with self._changing() as tx:
            row = await tx.row(_LOCK, {"called": said.name})
            if row is None:
                now = {**_columns(said), "settings": says}
                await tx.run(_INSERT, now)
            else:
                now = {**row._mapping, **_followed(row, says), "settings": says}
                now["database"] = said.database or row.database
                await tx.run(sa.update(cells).where(cells.c.name == said.name).values(**now))
        return _read(now)

    async def set_enabled(self, name: CellName, enabled: bool, reason: str | None) -> CellInfo:
        async with self._changing() as tx:
            row = await tx.row(_LOCK, {"called": name})
            if row is None:
                raise _missing(name)
            change = {"enabled": enabled, "disabled_reason": None if enabled else reason}
            await tx.run(sa.update(cells).where(cells.c.name == name).values(**change))
        return _read({**row._mapping, **change})

    async def forget(self, name: CellName) -> None:
        async with self._changing() as tx:
            await tx.run(_FORGET, {"called": name})


def _followed(row: Any, says: dict[str, Any]) -> dict[str, Any]:
    """Return the new values of the columns that still equal the last settings, and therefore follow the new ones."""
    if row.settings is None:
        return {}  # the cell was added by a command
    followed = {key: said for key, said in says.items() if getattr(row, key) == row.settings.get(key)}
    return {**followed, "disabled_reason": None} if followed.get("enabled") else followed


def _columns(cell: CellInfo) -> dict[str, Any]:
    columns = msgspec.structs.asdict(cell)
    del columns["in_settings"]
    return {**columns, "physnets": _listed(cell.physnets), "storage": _listed(cell.storage)}


def _listed(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _info(row: Any) -> CellInfo:
    return _read(row._mapping)


def _read(columns: Any) -> CellInfo:
    values = {**columns, "in_settings": columns["settings"] is not None}
    del values["settings"]
    reached = {key: None if values[key] is None else frozenset(values[key]) for key in ("physnets", "storage")}
    return CellInfo(**{**values, **reached})


def _missing(name: str) -> NotFound:
    return NotFound(f"There is no cell {name}.")
