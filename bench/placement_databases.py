"""Databases for Placement to be measured on: SQLite, or a PostgreSQL database of their own; made, filled, dropped."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import psycopg
import sqlalchemy as sa
from figures import processor_s
from placement_hosts import BRONZE, GOLD, OF_CARD, OF_HOST, PHYSNET, TRAITS, aggregate_of, card_id, host_id, is_gold

from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.engine.urls import ENGINE, connect_arguments
from whimbrel.adapters.sql.tables import placement as tables

POSTGRES = os.environ.get("WHIMBREL_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
SOME = 5000
"""So many rows are written at once."""

# References of rows that we make ourselves need no check, which takes most of the time; only superusers may say so.
_UNCHECKED = sa.text(
    "SELECT set_config('session_replication_role', 'replica', true) WHERE current_setting('is_superuser') = 'on'"
)


class Database(Protocol):
    """A filled database."""

    url: str

    def processor_s(self) -> float:
        """Return the processor time that the processes of this database have used so far.

        To be asked often: of a connection that was closed meanwhile, what it used since the last time is not seen.
        """
        ...


class Sqlite:
    """A file, which is all worked on in the process that uses it."""

    def __init__(self, directory: str) -> None:
        self.url = f"sqlite:///{directory}"

    def processor_s(self) -> float:
        return 0.0


class Postgres:
    """A database of a PostgreSQL on this machine."""

    def __init__(self, server: psycopg.Connection[Any], name: str) -> None:
        self._server = server
        self._name = name
        self._used_s: dict[int, float] = {}  # by process, of those that have ended too
        self.url = sa.make_url(POSTGRES).set(database=name).render_as_string(hide_password=False)

    def processor_s(self) -> float:
        asked = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
        for (pid,) in self._server.execute(asked, [self._name]):
            with suppress(OSError):  # it has just ended
                self._used_s[pid] = processor_s(pid)
        return sum(self._used_s.values())


@contextmanager
def sqlite(hosts: int, *, nested: bool) -> Iterator[Database]:
    with tempfile.TemporaryDirectory(prefix="whimbrel-bench-") as directory:
        database = Sqlite(directory)
        prepare(database.url, "placement")
        engine = sa.create_engine(f"{database.url}/placement.sqlite")
        with engine.begin() as tx:
            tx.execute(sa.text("PRAGMA synchronous = OFF"))
            _fill(tx, hosts, nested)
        engine.dispose()
        with Path(directory, "placement.sqlite").open("rb") as file:
            os.fsync(file)  # or whoever writes next waits for the disk instead of us
        yield database


@contextmanager
def postgresql(hosts: int, *, nested: bool) -> Iterator[Database]:
    with empty_postgresql() as database:
        prepare(database.url, "placement")
        engine = sa.create_engine(ENGINE, connect_args=connect_arguments(database.url, "placement"))
        with engine.begin() as tx:
            tx.execute(_UNCHECKED)
            _fill(tx, hosts, nested)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM ANALYZE"))  # or autovacuum does it while we measure
        engine.dispose()
        yield database


@contextmanager
def empty_postgresql() -> Iterator[Postgres]:
    """Create a PostgreSQL database, and drop it at the end."""
    name = f"whimbrel_bench_{os.getpid()}"
    with psycopg.connect(POSTGRES, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield Postgres(server, name)
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


DATABASES = {"sqlite": sqlite, "postgresql": postgresql}


def postgres_problem() -> str:
    """Return why PostgreSQL cannot be measured; empty if it can."""
    try:
        with psycopg.connect(POSTGRES, connect_timeout=2) as connection:
            if Path(f"/proc/{connection.info.backend_pid}/comm").read_text().strip() == "postgres":
                return ""
    except psycopg.OperationalError as error:
        return f"no PostgreSQL at {POSTGRES} (WHIMBREL_TEST_POSTGRES says where): {error}"
    except FileNotFoundError:
        pass
    return f"PostgreSQL at {POSTGRES} is not on this machine: its processor time cannot be read"


def _fill(tx: sa.Connection, hosts: int, nested: bool) -> None:
    _add_names(tx, tables.traits, [*TRAITS, GOLD, BRONZE, PHYSNET])
    _add_names(tx, tables.resource_classes, [*OF_HOST, *OF_CARD])
    for start in range(0, hosts, SOME):
        _add_providers(tx, range(start, min(start + SOME, hosts)), nested)
    provider = tables.providers.c
    is_host, is_card = provider.parent.is_(None), provider.parent.is_not(None)
    for of, stocks in ((is_host, OF_HOST), (is_card, OF_CARD)):
        for name, (total, ratio) in stocks.items():
            _add_stock(tx, of, name, total, ratio)
    for of, traits in ((is_host, TRAITS), (is_card, [PHYSNET])):
        which = of & tables.traits.c.name.in_(traits)
        pairs = sa.select(provider.uuid, tables.traits.c.name).join_from(tables.providers, tables.traits, which)
        tx.execute(sa.insert(tables.provider_traits).from_select(["provider", "trait"], pairs))


def _add_names(tx: sa.Connection, table: sa.Table, names: list[str]) -> None:
    known = set(tx.scalars(sa.select(table.c.name)))
    if missing := [{"name": name} for name in names if name not in known]:
        tx.execute(sa.insert(table), missing)


def _add_providers(tx: sa.Connection, numbers: range, nested: bool) -> None:
    tx.execute(sa.insert(tables.providers), [_provider(host_id(n), None, host_id(n), f"host{n}") for n in numbers])
    if nested:
        cards = [_provider(card_id(n), host_id(n), host_id(n), f"host{n}_card") for n in numbers]
        tx.execute(sa.insert(tables.providers), cards)
    members = [{"provider": host_id(n), "aggregate": aggregate_of(n)} for n in numbers]
    tx.execute(sa.insert(tables.provider_aggregates), members)
    gold = [{"provider": host_id(n), "trait": GOLD} for n in numbers if is_gold(n)]
    tx.execute(sa.insert(tables.provider_traits), gold)


def _provider(this: str, parent: str | None, root: str, name: str) -> dict[str, Any]:
    return {"uuid": this, "name": name, "generation": 0, "parent": parent, "root": root}


def _add_stock(tx: sa.Connection, of: sa.ColumnElement[bool], name: str, total: int, ratio: float) -> None:
    units = {"reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1, "allocation_ratio": ratio, "used": 0}
    row = {"resource_class": name, "total": total, **units}
    provider = tables.providers.c.uuid
    rows = sa.select(provider, *(sa.literal(value).label(column) for column, value in row.items())).where(of)
    tx.execute(sa.insert(tables.inventories).from_select(["provider", *row], rows))
