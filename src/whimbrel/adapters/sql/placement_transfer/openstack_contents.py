"""The contents of OpenStack Placement's own database, on MariaDB, MySQL or PostgreSQL.

Invariant: what a client of that Placement sees is copied, or the copy is refused. Its tables have few foreign keys, so
rows may refer to rows that are gone. Those that no request shows are left out and counted; for those that hold
capacity the copy is refused, with a message that names them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.placement_transfer import openstack_tables as tables
from whimbrel.adapters.sql.placement_transfer.kind_tables import PIECE, KindTables
from whimbrel.adapters.sql.placement_transfer.transfer_rows import (
    ALLOCATIONS,
    CONSUMERS,
    INVENTORIES,
    PROVIDER_AGGREGATES,
    PROVIDER_TRAITS,
    PROVIDERS,
    RESOURCE_CLASSES,
    TRAITS,
    Kind,
    Row,
    parents_first,
)
from whimbrel.domain.batches import batches
from whimbrel.domain.errors import Refused
from whimbrel.placement.resource_names import STANDARD_CLASSES, is_custom, standard_traits

_i = tables.inventories.c
_OF_MYSQL = ("mysql", "mariadb")


class OpenstackContents(KindTables):
    """Implements PlacementContents."""

    title = "OpenStack Placement's database"

    def __init__(self, connection: sa.Connection, now: datetime) -> None:
        """now: the time of creation of the rows that are written. Raises: Refused: another schema."""
        super().__init__(connection, tables)
        self._now = now.replace(tzinfo=None, microsecond=0)
        self._is_mysql = connection.dialect.name in _OF_MYSQL
        self.problems: list[str] = []
        self._left_out: dict[Kind, Counter[str]] = {}
        self._uuids: dict[int, str] = {}  # of providers
        self._classes: dict[int, str] = {}
        self._stocked: set[tuple[str, str]] = set()  # providers and classes that have inventories
        self._consumers: set[str] = set()
        self._ids: dict[sa.Table, dict[str, int]] = {}  # of rows that were written, by their name
        _check_version(connection)

    @property
    def left_out(self) -> Mapping[str, int]:
        return sum(self._left_out.values(), Counter[str]())

    def as_stored(self, kind: Kind, row: Row) -> Row:
        if kind is not INVENTORIES or not self._is_mysql:
            return row
        return (*row[:-1], float(f"{row[-1]:.6g}"))  # a FLOAT, which MySQL shows with six digits

    # Reading

    def rows(self, kind: Kind) -> Iterator[Row]:
        self._left_out[kind] = Counter()
        return _READERS[kind](self)

    def _names(self, table: sa.Table) -> dict[int, str]:
        """Return id -> name of a table of names."""
        return dict(map(tuple, self._select(sa.select(table.c.id, table.c[_name_column(table)]))))

    def _class_rows(self) -> Iterator[Row]:
        self._classes = self._names(tables.resource_classes)
        yield from ((name,) for name in self._classes.values() if name not in STANDARD_CLASSES)

    def _trait_rows(self) -> Iterator[Row]:
        standard = standard_traits()
        yield from ((name,) for name in self._names(tables.traits).values() if name not in standard)

    def _provider_rows(self) -> Iterator[Row]:
        p = tables.providers.c
        columns = (p.id, p.uuid, p.name, p.generation, p.parent_provider_id, p.root_provider_id)
        found = list(self._select(sa.select(*columns)))
        self._uuids = {row[0]: row[1].lower() for row in found}
        rows = [(self._uuids[row[0]], *row[2:4], *(self._uuids.get(id) for id in row[4:])) for row in found]
        roots = {row[0]: row[4] for row in rows}
        for row in parents_first(rows):
            uuid, name, generation, parent, root = row
            if name is None or generation is None or root is None:
                self._problem(PROVIDERS, row, "NULL: run placement-manage db online_data_migrations")
            elif root != (uuid if parent is None else roots.get(parent)):
                self._problem(PROVIDERS, row, "the root is not that of the parent")
            else:
                yield row

    def _inventory_rows(self) -> Iterator[Row]:
        amounts = (_i.total, _i.reserved, _i.min_unit, _i.max_unit, _i.step_size, _i.allocation_ratio)
        for provider, name, *rest in self._select(sa.select(_i.resource_provider_id, _i.resource_class_id, *amounts)):
            uuid, resource_class = self._uuids.get(provider), self._classes.get(name)
            row = (uuid, resource_class, *rest)
            total, reserved, *units, ratio = rest
            if uuid is None:
                self._left_out[INVENTORIES]["inventories of providers that are gone"] += 1
            elif resource_class is None:
                self._problem(INVENTORIES, row, "its resource class is gone")
            elif total < 1 or not 0 <= reserved <= total or min(units) < 1 or ratio < 0:
                self._problem(INVENTORIES, row, "out of range: PUT a valid inventory first")
            else:
                self._stocked.add((uuid, resource_class))
                yield row

    def _provider_trait_rows(self) -> Iterator[Row]:
        names, columns = self._names(tables.traits), tables.provider_traits.c
        for provider, trait in self._select(sa.select(columns.resource_provider_id, columns.trait_id)):
            yield self._uuids[provider], names[trait]

    def _provider_aggregate_rows(self) -> Iterator[Row]:
        names, columns = self._names(tables.aggregates), tables.provider_aggregates.c
        for provider, aggregate in self._select(sa.select(columns.resource_provider_id, columns.aggregate_id)):
            if provider in self._uuids and aggregate in names:
                yield self._uuids[provider], names[aggregate].lower()
            else:
                self._left_out[PROVIDER_AGGREGATES]["aggregates of providers that are gone"] += 1

    def _consumer_rows(self) -> Iterator[Row]:
        projects, users = self._names(tables.projects), self._names(tables.users)
        types = self._names(tables.consumer_types)
        c, a = tables.consumers.c, tables.allocations.c
        holders = {uuid.lower() for (uuid,) in self._select(sa.select(a.consumer_id).distinct())}
        columns = (c.uuid, c.generation, c.project_id, c.user_id, c.consumer_type_id)
        for uuid, generation, project, user, type in self._select(sa.select(*columns)):
            row = (uuid.lower(), generation, projects.get(project), users.get(user), types.get(type))
            if row[0] not in holders:
                self._left_out[CONSUMERS]["consumers without allocations"] += 1
            elif row[2] is None or row[3] is None:
                self._problem(CONSUMERS, row, "its project or user is gone")
            else:
                self._consumers.add(row[0])
                yield row

    def _allocation_rows(self) -> Iterator[Row]:
        a = tables.allocations.c
        seen: set[Row] = set()
        columns = (a.consumer_id, a.resource_provider_id, a.resource_class_id, a.used)
        for consumer, provider, name, used in self._select(sa.select(*columns)):
            stocked = (self._uuids.get(provider), self._classes.get(name))
            key = (consumer.lower(), *stocked)
            row = (*key, used)
            if stocked[0] is None:
                self._left_out[ALLOCATIONS]["allocations of providers that are gone"] += 1
            elif key[0] not in self._consumers:
                self._problem(ALLOCATIONS, row, "no such consumer: run placement-manage db online_data_migrations")
            elif stocked not in self._stocked:
                self._problem(ALLOCATIONS, row, "its provider has no such inventory: add it, or delete the allocation")
            elif key in seen or used < 1:
                self._problem(ALLOCATIONS, row, "invalid, or there twice: write the allocations of this consumer again")
            else:
                seen.add(key)
                yield row

    def _problem(self, kind: Kind, row: Row, why: str) -> None:
        shown = ", ".join(f"{column} {value}" for column, value in zip(kind.columns, row, strict=True))
        self.problems.append(f"{kind.title}: {shown}: {why}")

    # Writing

    def lock(self) -> None:
        """Lock out a Placement that is still running, on PostgreSQL."""
        self._lock_on_postgres()

    def clear(self) -> None:
        """Delete everything but standard names, and names of projects, users and consumer types, which hold nothing."""
        p = tables.providers
        for table in (tables.allocations, tables.consumers, tables.inventories, tables.provider_traits):
            self._connection.execute(sa.delete(table))
        self._connection.execute(sa.delete(tables.provider_aggregates))
        # InnoDB checks references within a table at each row.
        self._connection.execute(sa.update(p).values(parent_provider_id=None, root_provider_id=None))
        self._connection.execute(sa.delete(p))
        self._connection.execute(sa.delete(tables.aggregates))
        for table, standard in ((tables.resource_classes, STANDARD_CLASSES), (tables.traits, standard_traits())):
            gone = [id for id, name in self._names(table).items() if is_custom(name) and name not in standard]
            for ids in batches(gone, PIECE):
                self._connection.execute(sa.delete(table).where(table.c.id.in_(ids)))

    def write(self, kind: Kind, rows: Iterable[Row]) -> None:
        _WRITERS[kind](self, rows)

    def finish(self) -> None:
        """Set PostgreSQL's sequences to follow the rows that were written with numbers; MySQL does so by itself."""
        if self._is_mysql:
            return
        for table in self._ids:
            newest = sa.select(sa.func.greatest(sa.func.max(table.c.id), 1)).scalar_subquery()
            self._connection.execute(
                sa.select(sa.func.setval(sa.func.pg_get_serial_sequence(table.name, "id"), newest))
            )

    def _insert(self, table: sa.Table, rows: Iterable[Mapping[str, Any]]) -> None:
        for piece in batches(rows, PIECE):
            self._connection.execute(sa.insert(table), [{**row, "created_at": self._now} for row in piece])

    def _known(self, table: sa.Table) -> dict[str, int]:
        """Return name -> id of a table of names, to add to."""
        if table not in self._ids:
            self._ids[table] = {name: id for id, name in self._names(table).items()}
        return self._ids[table]

    def _refer(self, table: sa.Table, names: Iterable[str]) -> dict[str, int]:
        """Ensure that a table of names has these, and return name -> id."""
        known = self._known(table)
        first = FIRST_IDS.get(table, 1)
        number = max([first - 1, *known.values()])
        new = sorted(set(names) - known.keys())
        known.update({name: number + place for place, name in enumerate(new, start=1)})
        column = _name_column(table)
        self._insert(table, ({"id": known[name], column: name} for name in new))
        return known

    def _write_classes(self, rows: Iterable[Row]) -> None:
        known = self._known(tables.resource_classes)
        missing = [(number, name) for number, name in enumerate(STANDARD_CLASSES) if name not in known]
        if missing:
            if self._is_mysql:
                self._connection.execute(sa.text("SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"))
            self._insert(tables.resource_classes, ({"id": number, "name": name} for number, name in missing))
            known.update({name: number for number, name in missing})
        names = {name for (name,) in rows}
        if newer := sorted(name for name in names - known.keys() if not is_custom(name)):
            raise Refused(
                f"OpenStack Placement's database has no resource class {newer[0]}: start a Placement of that version"
                " once, so that it creates its standard names"
            )
        self._refer(tables.resource_classes, names)

    def _write_traits(self, rows: Iterable[Row]) -> None:
        self._refer(tables.traits, standard_traits().union(name for (name,) in rows))

    def _write_providers(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        ids = self._ids[tables.providers] = {row[0]: number for number, row in enumerate(rows, start=1)}
        self._insert(
            tables.providers,
            (
                {
                    "id": ids[uuid],
                    "uuid": uuid,
                    "name": name,
                    "generation": generation,
                    "parent_provider_id": ids[parent] if parent else None,
                    "root_provider_id": ids[root],
                }
                for uuid, name, generation, parent, root in rows
            ),
        )

    def _write_inventories(self, rows: Iterable[Row]) -> None:
        providers, classes = self._ids[tables.providers], self._ids[tables.resource_classes]
        amounts = INVENTORIES.columns[2:]
        self._insert(
            tables.inventories,
            (
                {"resource_provider_id": providers[uuid], "resource_class_id": classes[name]}
                | dict(zip(amounts, rest, strict=True))
                for uuid, name, *rest in rows
            ),
        )

    def _write_provider_traits(self, rows: Iterable[Row]) -> None:
        providers, traits = self._ids[tables.providers], self._ids[tables.traits]
        self._insert(
            tables.provider_traits,
            ({"resource_provider_id": providers[uuid], "trait_id": traits[name]} for uuid, name in rows),
        )

    def _write_provider_aggregates(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        ids, providers = self._refer(tables.aggregates, {row[1] for row in rows}), self._ids[tables.providers]
        self._insert(
            tables.provider_aggregates,
            ({"resource_provider_id": providers[uuid], "aggregate_id": ids[each]} for uuid, each in rows),
        )

    def _write_consumers(self, rows: Iterable[Row]) -> None:
        for piece in batches(rows, PIECE):
            projects = self._refer(tables.projects, {row[2] for row in piece})
            users = self._refer(tables.users, {row[3] for row in piece})
            types = self._refer(tables.consumer_types, {row[4] for row in piece if row[4] is not None})
            self._insert(
                tables.consumers,
                (
                    {
                        "uuid": uuid,
                        "generation": generation,
                        "project_id": projects[project],
                        "user_id": users[user],
                        "consumer_type_id": types.get(type),
                    }
                    for uuid, generation, project, user, type in piece
                ),
            )

    def _write_allocations(self, rows: Iterable[Row]) -> None:
        providers, classes = self._ids[tables.providers], self._ids[tables.resource_classes]
        self._insert(
            tables.allocations,
            (
                {
                    "consumer_id": consumer,
                    "resource_provider_id": providers[uuid],
                    "resource_class_id": classes[name],
                    "used": amount,
                }
                for consumer, uuid, name, amount in rows
            ),
        )


FIRST_IDS = {tables.resource_classes: tables.FIRST_CUSTOM_CLASS}

_READERS = {
    RESOURCE_CLASSES: OpenstackContents._class_rows,
    TRAITS: OpenstackContents._trait_rows,
    PROVIDERS: OpenstackContents._provider_rows,
    INVENTORIES: OpenstackContents._inventory_rows,
    PROVIDER_TRAITS: OpenstackContents._provider_trait_rows,
    PROVIDER_AGGREGATES: OpenstackContents._provider_aggregate_rows,
    CONSUMERS: OpenstackContents._consumer_rows,
    ALLOCATIONS: OpenstackContents._allocation_rows,
}
_WRITERS = {
    RESOURCE_CLASSES: OpenstackContents._write_classes,
    TRAITS: OpenstackContents._write_traits,
    PROVIDERS: OpenstackContents._write_providers,
    INVENTORIES: OpenstackContents._write_inventories,
    PROVIDER_TRAITS: OpenstackContents._write_provider_traits,
    PROVIDER_AGGREGATES: OpenstackContents._write_provider_aggregates,
    CONSUMERS: OpenstackContents._write_consumers,
    ALLOCATIONS: OpenstackContents._write_allocations,
}


def _name_column(table: sa.Table) -> str:
    return next(column.name for column in table.columns if column.name in ("name", "uuid", "external_id"))


def _check_version(connection: sa.Connection) -> None:
    """Raises: Refused: it is no database of Placement, or one of a version that is not known."""
    if not sa.inspect(connection).has_table(tables.alembic_version.name):
        raise Refused("this database has no table alembic_version: run placement-manage db sync, or name another one")
    version = connection.scalar(sa.select(tables.alembic_version.c.version_num))
    if version not in tables.KNOWN_VERSIONS or not sa.inspect(connection).has_table(tables.providers.name):
        known = " and ".join(tables.KNOWN_VERSIONS)
        raise Refused(
            f"schema version {version} of OpenStack Placement's database is not supported, only {known} are (2023.1 to"
            " 2026.2): placement-manage db sync migrates an older one"
        )
