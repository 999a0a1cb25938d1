"""Processes on the same databases: one with the hosts, and others only where it has brought the stores up to date."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

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

CLOUD = """
[[cell]]
name = "one"
[[cell.host]]
name = "n1"
zone = "z"
vcpus = 4
memory_mib = 4096
disk_gib = 40
driver = "simulated"
"""


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

    def set_version(self, store: str, version: str | None) -> None:
        with closing(sqlite3.connect(self._path / "db" / f"{store}.sqlite")) as database, database:
            database.execute("DELETE FROM alembic_version")
            database.executemany("INSERT INTO alembic_version VALUES (?)", [(version,)] if version else [])

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
        home.set_version(store, version)
        with pytest.raises(Refused, match=words):
            await home.conductor("a")
    assert home.version(store) == "9999"


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
