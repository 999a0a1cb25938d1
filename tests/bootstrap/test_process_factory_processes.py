"""Processes on the same databases: one with the hosts, and others only where it has brought the stores up to date."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.bootstrap.test_cloud_agreement import CLOUD
from whimbrel import settings
from whimbrel.adapters.sql.engine import schema
from whimbrel.bootstrap import process_factory
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.process_base import STORES, Start
from whimbrel.bootstrap.registration import this_process
from whimbrel.bootstrap.roles import CONDUCTOR, UP
from whimbrel.conductor.conductor import Conductor
from whimbrel.domain.errors import Refused
from whimbrel.domain.run import Run
from whimbrel.servers.lifecycle import create
from whimbrel.settings.datadir import DataDir, Running
from whimbrel.sim.cloud.cloud import SMALL, World


class Home:
    """Data directories that share the databases of the first one."""

    def __init__(self, path: Path) -> None:
        (path / "cloud.toml").write_text(CLOUD)
        self._config = settings.load(path / "cloud.toml")
        self._path = path
        self.url = f"sqlite:///{path / 'db'}"

    async def up(self, directory: str) -> Process:
        return await self._open("up", directory)

    async def conductor(self, directory: str) -> Process:
        DataDir(self._path / directory).announce(Running("http://127.0.0.1:1", 1, self.url, None))
        return await self._open("conductor", directory)

    async def _open(self, role: str, directory: str) -> Process:
        data = DataDir(self._path / directory)
        data.make()
        record = this_process(role, "main", directory, f"{role} lock of {directory}")
        start = Start(UP if role == "up" else CONDUCTOR, self._config, self.url, record, data, "http://127.0.0.1:1")
        return await process_factory.open_process(start)

    def set_version(self, store: str, version: str | None, oldest_program: str | None = None) -> None:
        with closing(sqlite3.connect(self._path / "db" / f"{store}.sqlite")) as database, database:
            database.execute("DELETE FROM alembic_version")
            database.executemany("INSERT INTO alembic_version VALUES (?)", [(version,)] if version else [])
            if oldest_program:
                database.execute("UPDATE schema_compatibility SET oldest_program = ?", (oldest_program,))

    def return_to_0_1(self) -> None:
        """Make the global database one of release 0.1, whose processes do not register what they know."""
        with closing(sqlite3.connect(self._path / "db" / "global.sqlite")) as database, database:
            database.execute("DROP TABLE schema_compatibility")
            database.execute("ALTER TABLE processes DROP COLUMN knows")
            database.execute("ALTER TABLE cells DROP COLUMN migration_network")
            database.execute("DROP INDEX one_open_run")
            database.execute("ALTER TABLE runs DROP COLUMN queued")
            for index in ("runs_to_announce", "actions_to_announce", "runs_by_source", "runs_by_ticket", "runs_open"):
                database.execute(f"DROP INDEX {index}")
            for column in ("entries", "announced", "source_host", "ticket"):
                database.execute(f"ALTER TABLE runs DROP COLUMN {column}")
            database.execute("ALTER TABLE actions DROP COLUMN to_announce")
            database.execute("CREATE UNIQUE INDEX one_open_run ON runs (subject) WHERE state = 'open'")
            tables = (
                "cloud_identity",
                "host_invitations",
                "host_keys",
                "bus_accounts",
                "run_progress",
                "console_tokens",
                "image_fetches",
                "image_requests",
                "announcing",
                "maintenances",
                "maintenance_hosts",
                "maintenance_items",
                "maintenance_holds",
                "proofs",
            )
            for table in tables:
                database.execute(f"DROP TABLE {table}")
        self.set_version("global", "0014")

    def version(self, store: str) -> str | None:
        with closing(sqlite3.connect(self._path / "db" / f"{store}.sqlite")) as database:
            version: str = database.execute("SELECT version_num FROM alembic_version").fetchone()[0]
            return version


async def test_a_cloud_has_one_process_with_hosts(tmp_path: Path) -> None:
    home = Home(tmp_path)
    first = await home.up("a")
    with pytest.raises(Refused, match=r"in use by another whimbrel up: process .* with data directory a, started"):
        await home.up("b")
    further = await home.conductor("a")
    await first.close()
    second = await home.up("b")
    await second.close()
    await further.close()


async def test_a_second_up_that_is_refused_migrates_nothing(tmp_path: Path) -> None:
    """An older process that runs has to be able to start again."""
    home = Home(tmp_path)
    first = await home.up("a")
    home.set_version("volumes", "0001")
    with pytest.raises(Refused, match="in use"):
        await home.up("b")
    assert home.version("volumes") == "0001"
    await first.close()


@pytest.mark.parametrize("store", [*STORES, "cell_one"])
async def test_a_conductor_needs_the_stores_at_its_own_version(tmp_path: Path, store: str) -> None:
    home = Home(tmp_path)
    await (await home.up("a")).close()
    await (await home.conductor("a")).close()
    older = ["", *schema.revisions(store.partition("_")[0])][-2] or None
    for version, words in ((older, "run `whimbrel db upgrade` of this version first"), ("9999", "newer Whimbrel")):
        home.set_version(store, version, oldest_program="9998")
        with pytest.raises(Refused, match=words):
            await home.conductor("a")
    assert home.version(store) == "9999"


async def test_processes_start_beside_newer_databases_that_allow_it(tmp_path: Path) -> None:
    """A roll back: the release after this one has migrated all databases, and is stopped."""
    home = Home(tmp_path)
    await (await home.up("a")).close()
    for store in (*STORES, "cell_one"):
        home.set_version(store, "9999", schema.oldest_program(store.partition("_")[0]))
    for start in (home.up, home.conductor):
        await (await start("a")).close()
    assert {home.version(store) for store in (*STORES, "cell_one")} == {"9999"}


async def test_an_up_beside_a_live_one_of_0_1_migrates_nothing(tmp_path: Path) -> None:
    """That one could not start again; when it has ended, its databases are migrated."""
    home = Home(tmp_path)
    first = await home.up("a")
    home.return_to_0_1()
    with pytest.raises(Refused, match=r"in use by another whimbrel up: process .* with data directory a, started"):
        await home.up("b")
    assert home.version("global") == "0014"
    await (await home.up("a")).close()  # its lock proves that its predecessor is dead
    assert home.version("global") == schema.revisions("global")[-1]
    await first.close()
    await (await home.up("b")).close()


async def test_a_conductor_takes_up_the_runs_of_dead_ones_only(tmp_path: Path) -> None:
    """Two of one name: the lease of a living one has to run out; a predecessor is known to be dead."""
    world = await World.build()
    living, namesake = (this_process("conductor", "c1", each, each).id for each in ("a", "b"))
    begun: list[Run] = []
    engine = world.engine(living, adopt=lambda run: begun.append(run) is None)  # as if it drove the run
    server = world.new_server("s", SMALL)
    await create.accept(world.cloud, engine, world.requester(), [server])
    for predecessors, taken in ([], False), ([living], True):
        conductor = Conductor(world.cloud, world.engine_parts(namesake), predecessors=predecessors)
        serving = asyncio.create_task(conductor.serve())
        for _ in range(20):
            await asyncio.sleep(0)
        run = await world.cloud.journal.get(begun[0].id)
        serving.cancel()
        await asyncio.wait((serving,))
        await conductor.close()
        assert (run.epoch > 1, run.owner == living) == (taken, not taken)
    await world.close()
