"""The schema machinery: what the migrations make is what the tables say, newer data is left alone, starts may race."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tests.contracts.databases import Postgres
from whimbrel.adapters.sql.engine.schema import (
    VERSION,
    VERSIONS_OF_0_1,
    Found,
    check,
    look,
    oldest_program,
    prepare,
    revisions,
    upgrade,
    version_of,
)
from whimbrel.adapters.sql.engine.urls import ENGINE, connect_arguments, sqlite_file
from whimbrel.adapters.sql.migrations import config_of
from whimbrel.adapters.sql.tables import MODULES, kind_of, metadata_of
from whimbrel.adapters.sql.tables.global_ import aggregates, directory, runs, zones
from whimbrel.adapters.sql.tables.keep import kept
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.guest import Guest, GuestKey
from whimbrel.domain.ids import ServerId, Slot
from whimbrel.sim.world.guests import SimulatedGuest

KINDS = [kind for kind in MODULES if revisions(kind)]


class Place:
    """Where a test prepares schemas: `place.url` and `place.schema("global")` are for `prepare`."""

    def __init__(self, url: str, schema: Callable[[str], str]) -> None:
        self.url = url
        self.schema = schema

    def engine(self, schema: str) -> sa.Engine:
        if self.url.startswith("sqlite"):
            return sa.create_engine(f"sqlite:///{sqlite_file(self.url, schema)}", poolclass=sa.pool.NullPool)
        return sa.create_engine(
            ENGINE,
            poolclass=sa.pool.NullPool,
            connect_args=connect_arguments(self.url, schema),
        )


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(f"sqlite:///{tmp_path}/data", lambda store: store)
    else:
        server: Postgres = request.getfixturevalue("postgres")
        yield Place(server.url, server.schema)


def constraints(connection: sa.Connection) -> dict[str, Any]:
    """Read what `compare_metadata` does not compare: checks, conditions of indexes, keys."""
    inspector = sa.inspect(connection)
    found: dict[str, Any] = {}
    for table in inspector.get_table_names():
        if table in ("alembic_version", "schema_compatibility"):
            continue
        found[f"{table} checks"] = sorted(
            (check["name"] or "", check["sqltext"]) for check in inspector.get_check_constraints(table)
        )
        found[f"{table} indexes"] = sorted(
            (index["name"] or "", index["column_names"], index["unique"], _text(index.get("dialect_options", {})))
            for index in inspector.get_indexes(table)
        )
        found[f"{table} key"] = inspector.get_pk_constraint(table)["constrained_columns"]
        found[f"{table} unique"] = sorted(
            (unique["name"] or "", unique["column_names"]) for unique in inspector.get_unique_constraints(table)
        )
        found[f"{table} references"] = sorted(str(sorted(key.items())) for key in inspector.get_foreign_keys(table))
    on_sqlite = connection.dialect.name == "sqlite"
    found["triggers"] = sorted(
        tuple(row) for row in connection.execute(_TRIGGERS_OF_SQLITE if on_sqlite else _TRIGGERS)
    )
    return found


_TRIGGERS_OF_SQLITE = sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
_TRIGGERS = sa.text(
    "SELECT tgname, replace(pg_get_triggerdef(t.oid), current_schema(), ''),"
    " replace(pg_get_functiondef(tgfoid), current_schema(), '') FROM pg_trigger AS t"
    " JOIN pg_class AS c ON c.oid = tgrelid WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace"
)


def _text(options: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((name, str(value)) for name, value in options.items())


@pytest.mark.parametrize("kind", KINDS)
def test_migrations_make_what_the_tables_say(place: Place, kind: str) -> None:
    new, migrated = place.schema(kind), place.schema("cell_migrated")
    prepare(place.url, new)
    with place.engine(new).connect() as connection:
        expected = constraints(connection)
        version = connection.scalar(VERSION)
    with place.engine(migrated).begin() as connection:
        if place.url.startswith("postgresql"):
            connection.execute(sa.schema.CreateSchema(migrated))
        upgrade(connection, kind)
        assert compare_metadata(MigrationContext.configure(connection), metadata_of(kind)) == []
        assert constraints(connection) == expected
        assert connection.scalar(VERSION) == version


@pytest.mark.parametrize("kind", KINDS)
def test_preparing_again_changes_nothing_and_needs_no_alembic(place: Place, kind: str) -> None:
    schema = place.schema(kind)
    prepare(place.url, schema)
    program = (
        "import sys; from whimbrel.adapters.sql.engine.schema import prepare; prepare(*sys.argv[1:]);"
        "sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, place.url, schema], check=False).returncode == 0


def test_a_newer_version_is_refused_and_not_touched(place: Place) -> None:
    schema = place.schema("placement")
    prepare(place.url, schema)
    with place.engine(schema).begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9876'"))
        connection.execute(sa.text("DROP TABLE schema_compatibility"))
    with pytest.raises(Refused, match=r"newer Whimbrel.*9876.*Start the newer program"):
        prepare(place.url, schema)
    with place.engine(schema).connect() as connection:
        assert connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == "9876"


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_schema_says_whether_this_program_may_use_it(place: Place, kind: str) -> None:
    """As after an upgrade to a later release: this program goes on beside it, and may be started again."""
    schema = place.schema("cell_c1" if kind == "cell" else kind)
    prepare(place.url, schema)
    own = revisions(kind)[-1]
    assert look(place.url, schema) == Found(own, oldest_program(kind))
    for oldest, is_usable in ((own, True), (VERSIONS_OF_0_1[kind], True), ("9875", False)):
        with place.engine(schema).begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '9876'"))
            connection.execute(sa.text("UPDATE schema_compatibility SET oldest_program = :v"), {"v": oldest})
        for use in (prepare, check, version_of):
            if is_usable:
                use(place.url, schema)
            else:
                with pytest.raises(Refused, match=r"newer Whimbrel.*9876.*Start the newer program"):
                    use(place.url, schema)
        assert look(place.url, schema) == Found("9876", oldest)


def test_an_upgraded_schema_says_which_programs_may_use_it(place: Place) -> None:
    schema = place.schema("placement")
    if place.url.startswith("sqlite"):
        Path(place.url.removeprefix("sqlite:///")).mkdir()
    with place.engine(schema).begin() as connection:
        if place.url.startswith("postgresql"):
            connection.execute(sa.schema.CreateSchema(schema))
        command.upgrade(config_of("placement", connection), "0003")
    assert look(place.url, schema) == Found("0003", None)
    prepare(place.url, schema)
    assert look(place.url, schema) == Found(revisions("placement")[-1], oldest_program("placement"))


def test_processes_may_prepare_at_once(place: Place) -> None:
    schemas = [place.schema(name) for name in ("placement", "keep")]
    program = (
        "import sys\n"
        "from whimbrel.adapters.sql.engine.schema import prepare\n"
        "for s in sys.argv[2:]: prepare(sys.argv[1], s)"
    )
    command = [sys.executable, "-c", program, place.url, *schemas]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    problems = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], problems
    prepare(place.url, schemas[0])


def test_a_half_made_schema_is_not_kept(tmp_path: Path) -> None:
    """A table in the way makes the migration fail; what it had made before that is gone again."""
    url = f"sqlite:///{tmp_path}"
    file = sqlite_file(url, "placement")
    engine = sa.create_engine(f"sqlite:///{file}", poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE traits (something INTEGER)"))
    with pytest.raises((Refused, Unavailable)):
        prepare(url, "placement")
    with engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["traits"]


def test_simulated_guests_of_an_older_version_run_on(place: Place) -> None:
    schema = place.schema("keep")
    if place.url.startswith("sqlite"):
        Path(place.url.removeprefix("sqlite:///")).mkdir()
    guest = {
        "key": {"server": "s1", "slot": "a"},
        "name": "web",
        "vcpus": 1,
        "memory_mib": 512,
        "root_gib": 2,
        "power": "running",
        "disk": {"contents": {"origin": "image"}, "size_bytes": 2 << 30},
        "console": ["hello"],
    }
    with place.engine(schema).begin() as connection:
        if place.url.startswith("postgresql"):
            connection.execute(sa.schema.CreateSchema(schema))
        command.upgrade(config_of("keep", connection), "0001")
        row = {"space": "guests/h1", "key": "s1/a", "value": json.dumps(guest).encode()}
        connection.execute(sa.insert(kept), [row, {**row, "space": "fences/h1", "value": b"7"}])
    prepare(place.url, schema)
    with place.engine(schema).connect() as connection:
        values = {row.space: bytes(row.value) for row in connection.execute(sa.select(kept))}
    found = msgspec.json.decode(values["guests/h1"], type=SimulatedGuest)
    key = GuestKey(ServerId("s1"), Slot("a"))
    assert found.observed == Guest(
        key=key, power="running", vcpus=1, memory_mib=512, root_gib=2, has_disk=True, disks=("root",)
    )
    assert (found.spec.name, found.console, values["fences/h1"]) == ("web", ("hello",), b"7")


def test_names_of_zones_of_an_older_version_are_ids_from_then_on(place: Place) -> None:
    schema = place.schema("global")
    if place.url.startswith("sqlite"):
        Path(place.url.removeprefix("sqlite:///")).mkdir()
    with place.engine(schema).begin() as connection:
        if place.url.startswith("postgresql"):
            connection.execute(sa.schema.CreateSchema(schema))
        command.upgrade(config_of("global", connection), "0002")
        rows = [
            {"uuid": str(n), "name": str(n), "metadata": metadata, "created_at": 9.0 - n}
            for n, metadata in enumerate(
                [{"availability_zone": "east"}, {"ssd": "true"}, {"availability_zone": "east"}]
            )
        ]
        connection.execute(sa.insert(aggregates), rows)
    prepare(place.url, schema)
    with place.engine(schema).connect() as connection:
        assert [tuple(row) for row in connection.execute(sa.select(zones))] == [("east", "east", 7.0)]


def test_the_directory_of_an_older_version_learns_when_servers_were_created(place: Place) -> None:
    schema = place.schema("global")
    if place.url.startswith("sqlite"):
        Path(place.url.removeprefix("sqlite:///")).mkdir()
    run = {
        "saga": "create", "version": 1, "subject": "old", "project_id": "p", "user_id": "u", "asker_project_id": "p",
        "action": "req", "at": "", "way": "forward", "state": "done", "epoch": 1, "due_at": 0, "tries": 0, "since": 0,
        "status": "", "facts": b"{}", "log": b"[]", "debts": b"[]", "updated_at": 0, "finished_at": 9,
    }  # fmt: skip
    entry = {"project_id": "p", "user_id": "u", "cell": "c1", "vcpus": 1, "memory_mib": 1}
    with place.engine(schema).begin() as connection:
        if place.url.startswith("postgresql"):
            connection.execute(sa.schema.CreateSchema(schema))
        command.upgrade(config_of("global", connection), "0008")
        connection.execute(sa.insert(runs), [{**run, "id": f"r{at}", "created_at": at} for at in (8.0, 5.0, 6.0)])
        known = sa.table("directory", *map(sa.column, ("server_id", *entry)))
        connection.execute(sa.insert(known), [{**entry, "server_id": id} for id in ("old", "unknown")])
    prepare(place.url, schema)
    with place.engine(schema).connect() as connection:
        found = {row.server_id: row.created_at for row in connection.execute(sa.select(directory))}
    assert found == {"old": 5.0, "unknown": 0.0}


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keep.sqlite").write_bytes(b"not a database, but long enough to be looked at " * 20)
    with pytest.raises(Refused, match=r"keep.*put a backup of the data directory in its place"):
        prepare(f"sqlite:///{tmp_path}", "keep")


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        prepare("postgresql://nobody@127.0.0.1:1/none", "keep")


def test_kinds() -> None:
    assert kind_of("cell_a__b") == "cell"
    assert kind_of("blue__cell_a") == "cell"
    assert kind_of("blue__global") == "global"
    with pytest.raises(ValueError, match="nonsense"):
        kind_of("nonsense")


@pytest.mark.parametrize("kind", KINDS)
def test_who_only_checks_changes_nothing(place: Place, kind: str) -> None:
    store = "cell_c1" if kind == "cell" else kind
    schema = place.schema(store)
    assert version_of(place.url, schema) is None
    with pytest.raises(Refused, match=r"has schema version none, and this program needs .*: run `whimbrel db upgrade`"):
        check(place.url, schema)
    assert version_of(place.url, schema) is None
    prepare(place.url, schema)
    check(place.url, schema)
    assert version_of(place.url, schema) == revisions(kind)[-1]
    for version, words in (("0000", "newer Whimbrel"), (revisions(kind)[0], "needs")):
        with place.engine(schema).begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :v"), {"v": version})
        if version != revisions(kind)[-1]:
            with pytest.raises(Refused, match=words):
                check(place.url, schema)


@pytest.mark.parametrize("before", [None, "0003"])
def test_threads_may_prepare_at_once(place: Place, before: str | None) -> None:
    """A process does so when several cells are added; others do it meanwhile."""
    schemas = [place.schema(f"cell_c{number}") for number in range(3)]
    prepare(place.url, place.schema("keep"))  # makes the directory of SQLite
    for schema in schemas if before else []:
        with place.engine(schema).begin() as connection:
            if place.url.startswith("postgresql"):
                connection.execute(sa.schema.CreateSchema(schema))
            command.upgrade(config_of("cell", connection), str(before))
    with ThreadPoolExecutor(12) as threads:
        for each in [threads.submit(prepare, place.url, schema) for schema in schemas * 4]:
            each.result()
    assert {version_of(place.url, schema) for schema in schemas} == {revisions("cell")[-1]}
