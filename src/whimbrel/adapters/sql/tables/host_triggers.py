"""Triggers of a cell's database: each change of a host, or of what is on it, appends the host's name to `host_changes`.

Triggers and not the stores write it, so that no change is missed: not of a process of an older release, and not of an
operator who uses SQL. Heartbeats (`seen_at`) and reported metrics are no changes: they change all the time.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa

WATCHED: Final[dict[str, tuple[str, Sequence[str]]]] = {
    "hosts": (
        "name",
        (
            *("number", "name", "id", "service_id", "driver", "vcpus", "memory_mib", "disk_gib", "enabled"),
            *("disabled_reason", "forced_down", "created_at", "hypervisor_type", "hypervisor_version", "cpu_info"),
            *("host_ip", "numa", "session"),
        ),
    ),
    "servers": (
        "host",
        ("host", "vm_state", "task_state", "standing", "image_id", "launched_at", "deleted_at"),
    ),
    "pci_devices": ("host", ("is_withdrawn", "server_id")),
    "build_failures": ("host", ("at",)),
}
"""Table -> the column with the host's name, and the columns whose change counts."""

_FUNCTION = """
DO $do$ BEGIN EXECUTE format($format$
    CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
        IF TG_OP <> 'INSERT' AND OLD.{column} IS NOT NULL THEN
            INSERT INTO %1$I.host_changes (host, xid) VALUES (OLD.{column}, pg_current_xact_id()::text::bigint);
        END IF;
        IF TG_OP = 'INSERT' OR TG_OP = 'UPDATE' AND NEW.{column} IS DISTINCT FROM OLD.{column} THEN
            IF NEW.{column} IS NOT NULL THEN
                INSERT INTO %1$I.host_changes (host, xid) VALUES (NEW.{column}, pg_current_xact_id()::text::bigint);
            END IF;
        END IF;
        RETURN NULL;
    END $body$
$format$, current_schema()); END $do$
"""
_NOTE = "INSERT INTO host_changes (host, xid) SELECT {0}, 0 WHERE {0} IS NOT NULL"


def create_triggers(connection: sa.Connection, tables: Collection[str] = tuple(WATCHED)) -> None:
    """Create the triggers of tables that are there and have none. tables: on SQLite; PostgreSQL's keep theirs."""
    on_sqlite = connection.dialect.name == "sqlite"
    for statement in _sqlite(tables) if on_sqlite else _postgres():
        connection.execute(sa.text(statement))


def _sqlite(tables: Collection[str]) -> list[str]:
    made = []
    for table, (column, counting) in WATCHED.items():
        if table not in tables:
            continue
        old, new = f"OLD.{column}", f"NEW.{column}"
        differs = " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in counting)
        moved = f"{_NOTE.format(new)} AND {new} IS NOT {old}"
        for event, condition, notes in (
            ("INSERT", f"{new} IS NOT NULL", [_NOTE.format(new)]),
            ("UPDATE", differs, [_NOTE.format(old), moved]),
            ("DELETE", f"{old} IS NOT NULL", [_NOTE.format(old)]),
        ):
            body = " ".join(f"{note};" for note in notes)
            name = f"{table}_note_{event.lower()}"
            made.append(f"CREATE TRIGGER {name} AFTER {event} ON {table} WHEN {condition} BEGIN {body} END")
    return made


def _postgres() -> list[str]:
    names = {column: f"note_host_by_{column}" for column, _ in WATCHED.values()}
    made = [_FUNCTION.format(name=name, column=column) for column, name in names.items()]
    for table, (column, _) in WATCHED.items():
        note = f"FOR EACH ROW EXECUTE FUNCTION {names[column]}()"
        made += [f"CREATE TRIGGER {table}_note AFTER INSERT OR DELETE ON {table} {note}", _postgres_update(table)]
    return made


def _postgres_update(table: str) -> str:
    column, counting = WATCHED[table]
    differs = " OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in counting)
    note = f"FOR EACH ROW WHEN ({differs}) EXECUTE FUNCTION note_host_by_{column}()"
    return f"CREATE TRIGGER {table}_note_update AFTER UPDATE ON {table} {note}"


@contextmanager
def without_update_trigger(connection: sa.Connection, table: str) -> Iterator[None]:
    """Allow changes of the types of a table's watched columns: PostgreSQL refuses them while a trigger names them."""
    if connection.dialect.name == "sqlite":
        yield
        return
    connection.execute(sa.text(f"DROP TRIGGER {table}_note_update ON {table}"))
    yield
    connection.execute(sa.text(_postgres_update(table)))


def after_create(_: sa.MetaData, connection: sa.Connection, **__: Any) -> None:
    """Create the triggers with the tables."""
    create_triggers(connection)
