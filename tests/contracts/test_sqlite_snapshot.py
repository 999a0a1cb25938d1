"""Snapshots of several SQLite files: of one moment, without keeping writers out for long."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest

from tests.processes import HANG_S
from whimbrel.adapters.sql.engine import sqlite_snapshot as module
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.engine.sqlite_snapshot import Snapshot, snapshot
from whimbrel.adapters.sql.engine.write_lock import TRIES_EACH_S
from whimbrel.adapters.sql.tables import MODULES
from whimbrel.domain.errors import NotFound, Refused, Unavailable

WRITER = """
import sqlite3, sys
first, last = (sqlite3.connect(file, isolation_level=None, timeout=1800) for file in sys.argv[1:])
for each in (first, last):
    each.execute("PRAGMA synchronous = OFF")
print("writes", flush=True)
while True:
    for each in (first, last):
        each.execute("UPDATE counter SET number = number + 1")
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'db'}"
    for schema in [name for name in MODULES if name != "cell"]:
        prepare(url, schema)
    for schema in ("global", "volumes"):
        with connected(url, schema) as connection:
            connection.execute("CREATE TABLE counter (number INTEGER)")
            connection.execute("INSERT INTO counter VALUES (0)")
    return url


def file_of(url: str, schema: str) -> Path:
    return Path(url.removeprefix("sqlite:///")) / f"{schema}.sqlite"


@contextmanager
def connected(url: str, schema: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file_of(url, schema), timeout=0, isolation_level=None)) as connection:
        yield connection


def count(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE counter SET number = number + 1")


def add_cell(url: str, name: str, database: str | None) -> None:
    with connected(url, "global") as connection:
        connection.execute(
            "INSERT INTO cells (name, database, enabled, created_at) VALUES (?, ?, 1, 0)", (name, database)
        )


def copied(taken: Snapshot, schema: str, directory: Path) -> int:
    """Copy a file and return its counter."""
    directory.mkdir(exist_ok=True)
    to = directory / f"{schema}-{len(list(directory.iterdir()))}"
    taken.copy(schema, to, lambda part: None)
    with closing(sqlite3.connect(to)) as connection:
        number: int = connection.execute("SELECT number FROM counter").fetchone()[0]
    return number


@asynccontextmanager
async def begun(url: str) -> AsyncIterator["asyncio.Task[None]"]:
    """Take a snapshot beside the test, which goes on when the snapshot has tried for the locks."""

    async def take() -> None:
        async with snapshot(url, HANG_S):
            pass

    task = asyncio.create_task(take())
    await asyncio.sleep(3 * TRIES_EACH_S)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_all_files_are_of_one_moment_while_another_process_writes(url: str, tmp_path: Path) -> None:
    """The writer counts in the first file and then in the last one, so the last one is never ahead of the first."""
    files = [str(file_of(url, schema)) for schema in ("global", "volumes")]

    async def take() -> tuple[int, int]:
        async with snapshot(url, HANG_S) as taken:
            first = copied(taken, "global", tmp_path / "copies")
            return first, copied(taken, "volumes", tmp_path / "copies")

    seen: set[tuple[int, int]] = set()
    with subprocess.Popen([sys.executable, "-c", WRITER, *files], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout
            assert writer.stdout.readline() == b"writes\n"
            while len(seen) < 20:  # with each, the writer has written since the one before
                seen.add(await take())
        finally:
            writer.kill()
    assert [pair for pair in seen if pair[0] - pair[1] not in (0, 1)] == []


async def test_no_file_can_be_written_while_the_others_are_awaited(url: str) -> None:
    with connected(url, "volumes") as last, connected(url, "global") as first:
        last.execute("BEGIN IMMEDIATE")
        async with begun(url) as taking:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                count(first)
            last.execute("COMMIT")
            await taking
            count(first)


async def test_a_process_that_holds_one_file_and_waits_for_another_gets_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCKING_S", 50 * TRIES_EACH_S)
    with connected(url, "volumes") as last, connected(url, "global") as first:
        last.execute("BEGIN IMMEDIATE")
        async with begun(url) as taking:
            while True:
                try:
                    count(first)
                    break
                except sqlite3.OperationalError:
                    await asyncio.sleep(0)
            assert not taking.done(), "it has all files, though one of them is another's"
            last.execute("COMMIT")
            await taking


async def test_who_writes_is_not_kept_out_while_files_are_read_and_not_seen(url: str, tmp_path: Path) -> None:
    async with snapshot(url, HANG_S) as taken:
        for schema in taken.files:
            with connected(url, schema) as connection:
                connection.execute("CREATE TABLE later (id INTEGER)")
        with connected(url, "volumes") as last:
            count(last)
            last.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert copied(taken, "volumes", tmp_path / "copies") == 0
    async with snapshot(url, HANG_S) as taken:
        assert copied(taken, "volumes", tmp_path / "copies") == 1


async def test_files_that_stay_locked_are_named_and_no_lock_is_left(url: str) -> None:
    async def story() -> None:
        async with snapshot(url, 0):
            raise AssertionError("it was locked")

    with connected(url, "placement") as rival:
        rival.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match=r"keep placement\.sqlite locked; .* --timeout"):
            await story()
        for schema in set(MODULES) - {"cell", "placement"}:
            with connected(url, schema) as connection:
                connection.execute("CREATE TABLE free (id INTEGER)")


async def test_the_databases_of_cells_are_among_them(url: str, tmp_path: Path) -> None:
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere'}"
    for name, database in (("own", None), ("other", elsewhere)):
        add_cell(url, name, database)
        prepare(database or url, f"cell_{name}")

    async def files() -> dict[str, Path]:
        async with snapshot(url, HANG_S) as taken:
            assert {schema: taken.revision(schema) for schema in taken.files}["cell_own"].isdigit()
            return dict(taken.files)

    found = await files()
    assert found["cell_own"] == tmp_path / "db" / "cell_own.sqlite"
    assert found["cell_other"] == tmp_path / "elsewhere" / "cell_other.sqlite"
    assert found.keys() == (set(MODULES) - {"cell"}) | {"cell_own", "cell_other"}


@pytest.mark.parametrize(
    ("database", "error", "said"),
    [
        ("postgresql://u:secret@nowhere/d", Refused, "cell_far is in PostgreSQL.*pg_dump"),
        (None, NotFound, r"cell_far\.sqlite is missing"),
    ],
)
async def test_a_cell_that_is_in_no_file(url: str, database: str | None, error: type[Exception], said: str) -> None:
    add_cell(url, "far", database)

    async def take() -> None:
        async with snapshot(url, HANG_S):
            raise AssertionError("there is no such file")

    with pytest.raises(error, match=said):
        await take()


async def test_what_is_no_database_is_said(url: str) -> None:
    file_of(url, "network").write_bytes(b"no database" * 1000)

    async def take() -> None:
        async with snapshot(url, HANG_S):
            raise AssertionError("it is damaged")

    with pytest.raises(Unavailable, match=r"network\.sqlite cannot be read or copied"):
        await take()
