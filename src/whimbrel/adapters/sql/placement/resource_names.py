"""Resource classes and traits in a database: custom ones get a row on creation, standard ones on first use.

Invariant: every name that an inventory or a provider refers to has a row; standard names exist without one too.
"""

from collections.abc import Collection, Iterable

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import inserts, inserts_if_new
from whimbrel.adapters.sql.placement.changes import note
from whimbrel.adapters.sql.tables.placement import inventories, provider_traits, resource_classes, traits
from whimbrel.domain.errors import NotFound
from whimbrel.placement.errors import Duplicate, NameInUse, UnknownName
from whimbrel.placement.resource_names import STANDARD_CLASSES, standard_traits


class Names:
    """One of the two tables of names, and the table that refers to it."""

    def __init__(self, word: str, table: sa.Table, used_by: sa.Column[str], *, missing: str) -> None:
        self.word = word
        self._missing = missing  # prefix of the error for a missing name, as clients expect it
        name = table.c.name
        self._all = sa.select(name).order_by(name)
        self._some = fixed(sa.select(name).where(name.in_(bindparam("names", expanding=True))))
        self._new = inserts_if_new(table)
        self._add = inserts(table, lambda insert: insert.on_conflict_do_nothing().returning(name))
        self._rename = sa.update(table).where(name == bindparam("was")).values(name=bindparam("now"))
        self._delete = sa.delete(table).where(name == bindparam("name"))
        self._in_use = sa.select(sa.exists().where(used_by == bindparam("name")))
        self._used = sa.select(used_by).distinct()
        self._users = sa.select(used_by.table.c.provider).where(used_by == bindparam("name"))

    async def all(self, tx: Tx) -> list[str]:
        return [row[0] for row in await tx.rows(self._all)]

    async def used(self, tx: Tx) -> set[str]:
        return {row[0] for row in await tx.rows(self._used)}

    async def known(self, tx: Tx, names: Collection[str]) -> set[str]:
        return {row[0] for row in await tx.rows(self._some, {"names": list(names)})} if names else set()

    async def add(self, tx: Tx, name: str) -> bool:
        """Add a name; False: it exists already."""
        return await tx.row(self._add[tx.dialect], {"name": name}) is not None

    async def refer(self, tx: Tx, names: Collection[str], standard: Collection[str]) -> None:
        """Ensure that each of these names has a row. Raises: UnknownName: some are neither standard nor created."""
        new = set(names) - await self.known(tx, names)
        if unknown := sorted(new.difference(standard)):
            raise UnknownName(f"No such {self.word} {', '.join(unknown)}.")
        await self._add_all(tx, sorted(new))

    async def ensure(self, tx: Tx, names: Collection[str]) -> None:
        """Ensure that each of these names, all known to be valid, has a row."""
        await self._add_all(tx, sorted(set(names) - await self.known(tx, names)))

    async def _add_all(self, tx: Tx, names: Iterable[str]) -> None:
        if rows := [{"name": name} for name in names]:
            await tx.run(self._new[tx.dialect], rows)

    async def rename(self, tx: Tx, name: str, new_name: str) -> None:
        """Raises: NotFound; Duplicate."""
        if name == new_name:
            return
        if await self.known(tx, [new_name]):
            raise Duplicate(f"The {self.word} {new_name} already exists.")
        if not (await tx.run(self._rename, {"was": name, "now": new_name})).rowcount:
            raise NotFound(f"{self._missing} {name}.")
        await note(tx, [row[0] for row in await tx.rows(self._users, {"name": new_name})])

    async def delete(self, tx: Tx, name: str) -> None:
        """Raises: NotFound; NameInUse."""
        if await tx.value(self._in_use, {"name": name}):
            raise NameInUse(f"The {self.word} {name} is in use by a resource provider.")
        if not (await tx.run(self._delete, {"name": name})).rowcount:
            raise NotFound(f"{self._missing} {name}.")


CLASSES = Names("resource class", resource_classes, inventories.c.resource_class, missing="No such resource class")
TRAITS = Names("trait", traits, provider_traits.c.trait, missing="No such trait(s):")


async def refer_classes(tx: Tx, names: Collection[str]) -> None:
    await CLASSES.refer(tx, names, STANDARD_CLASSES)


async def refer_traits(tx: Tx, names: Collection[str]) -> None:
    await TRAITS.refer(tx, names, standard_traits())


async def all_traits(tx: Tx, *, associated: bool | None = None) -> list[str]:
    """Return standard and custom traits. associated: only those that some provider has, or that none has."""
    if associated is True:
        return sorted(await TRAITS.used(tx))
    names = standard_traits().union(await TRAITS.all(tx))
    return sorted(names - await TRAITS.used(tx) if associated is False else names)
