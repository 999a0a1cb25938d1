"""`whimbrel upgrade check`, and migrations that wait for processes: in clouds with members of several releases."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.contracts.databases import own_postgres, postgres
from tests.contracts.runs import FLAVOR, a_run, an_action
from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.cell.hosts import SqlHosts
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.adapters.sql.engine.schema import Contract, prepare
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.adapters.sql.global_.processes import SqlProcesses
from whimbrel.bootstrap import upgrade_check
from whimbrel.bootstrap.process_base import prepare_stores
from whimbrel.bootstrap.registration import this_process
from whimbrel.bootstrap.upgrade_check import migration_obstacle, report
from whimbrel.cli import main
from whimbrel.domain.errors import Refused
from whimbrel.domain.host import Host
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import CellName, HostName, ProjectId, ProviderId, UserId
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.hosts import AgentInfo
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord

__all__ = ["own_postgres", "postgres"]

OWN = this_process("conductor", "own").release

ANY_FACTS = MoveFacts(owner=Owner(ProjectId("p"), UserId("u")), name="s", image_id=None, new_flavor=FLAVOR)


class Room:
    """The databases of a cloud with one cell."""

    def __init__(self, url: str) -> None:
        self.url = url

    @asynccontextmanager
    async def database(self, store: str) -> AsyncIterator[Database]:
        database = Databases(2).open(self.url, store)
        yield database
        await database.close()

    async def make(self) -> None:
        prepare_stores(self.url)
        prepare(self.url, "cell_one")
        async with self.database("global") as global_:
            await SqlCells(global_).ensure(CellInfo(name=CellName("one"), created_at=1.0))

    async def enter(self, role: str, release: str = OWN, schemas: dict[str, str] | None = None) -> ProcessRecord:
        record = this_process(role, "main", role, f"lock of {role}")
        knows = replace(record.knows, schemas=record.knows.schemas if schemas is None else schemas)
        record = replace(record, release=release, knows=knows)
        async with self.database("global") as global_:
            await SqlProcesses(global_, SystemClock()).enter(record, LEASE_S)
        return record

    async def begin_session(self, name: str, release: str) -> None:
        host = Host(
            name=HostName(name), cell=CellName("one"), id=ProviderId(name), service_id=name, driver="simulated",
            vcpus=1, memory_mib=1, disk_gib=1,
        )  # fmt: skip
        description = HostDescription(
            name=host.name, zone="z", driver="simulated", vcpus=1, memory_mib=1, disk_gib=1, net=HostNet(host=host.name)
        )
        async with self.database("cell_one") as cell:
            await SqlHosts(cell, CellName("one")).begin_session(host, AgentInfo(release=release), description)

    async def begin(self, name: str, saga: str, version: int) -> None:
        run = replace(a_run(name, facts=ANY_FACTS), saga=saga, version=version)
        async with self.database("global") as global_:
            await SqlJournal(global_, upgrade_check.SAGAS).accept(run, an_action(run))

    async def obstacles(self) -> list[tuple[str, str]]:
        return [(each.kind, each.name) for each in (await report(self.url)).holds_back]


@pytest.fixture(params=["sqlite", "postgresql"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Room:
    if request.param == "sqlite":
        return Room(f"sqlite:///{tmp_path}/db")
    return Room(request.getfixturevalue("own_postgres"))


async def test_nothing_holds_back_a_cloud_of_this_release(room: Room) -> None:
    await room.make()
    await room.enter("up")
    await room.begin_session("n1", OWN)
    await room.begin("a", "resize", 2)
    found = await report(room.url)
    assert (found.holds_back, found.floor, found.release) == ([], OWN, OWN)
    assert [(each.role, each.release) for each in found.processes] == [("up", OWN)]
    assert [(each.host, each.release) for each in found.agents] == [("n1", OWN)]
    assert {each.store for each in found.databases} >= {"global", "placement", "cell_one"}


async def test_all_that_holds_an_upgrade_back_is_named(room: Room) -> None:
    await room.make()
    await room.enter("up")
    old = await room.enter("conductor", release="0.0.9")
    await room.begin_session("n1", "0.0.8")
    await room.begin_session("n2", OWN)
    for name, version in (("a", 1), ("b", 1), ("c", 2)):
        await room.begin(name, "resize", version)
    async with room.database("global") as global_, global_.write() as tx:
        await tx.run(sa.text("UPDATE runs SET version = 77 WHERE id = 'run-c'"))
    found = await report(room.url)
    assert [(each.kind, each.name) for each in found.holds_back] == [
        ("process", old.id), ("agent", "n1"), ("runs", "resize 1"), ("runs", "resize 77"),
    ]  # fmt: skip
    assert found.floor == "0.0.8"
    reasons = [each.reason for each in found.holds_back]
    assert "host n1 is of release 0.0.8: upgrade it" in reasons[1]
    assert reasons[2].startswith("2 open runs of version 1 of resize; the newest is 2")
    assert "1 open run of version 77 of resize, which this release does not know" in reasons[3]


async def test_older_databases_are_named_and_their_processes_seen(room: Room) -> None:
    """Of release 0.1: its processes do not register what they know."""
    await room.make()
    record = await room.enter("up", release="0.0.1")
    async with room.database("global") as global_, global_.write() as tx:
        await tx.run(sa.text("ALTER TABLE processes DROP COLUMN knows"))
        await tx.run(sa.text("UPDATE alembic_version SET version_num = '0014'"))
    found = await report(room.url)
    assert [(each.kind, each.name) for each in found.holds_back] == [("process", record.id), ("database", "global")]
    assert "schema version 0014, and this release has" in found.holds_back[1].reason


def test_no_cloud(room: Room, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no cloud in this database yet"):
        asyncio.run(report(room.url))
    assert not list(tmp_path.rglob("*.sqlite"))


@pytest.fixture
def contract(monkeypatch: pytest.MonkeyPatch) -> Contract:
    """A contract migration of cells in this release: made up, because there is none yet."""
    made = Contract(revision="9000", safe_since="8.0", oldest_program="8999")
    monkeypatch.setattr(upgrade_check, "contracts", lambda kind: [made] if kind == "cell" else [])
    return made


async def test_a_migration_waits_for_processes_that_need_what_it_removes(room: Room, contract: Contract) -> None:
    await room.make()
    assert await migration_obstacle(room.url) is None
    up = await room.enter("up", schemas={"cell": contract.oldest_program})
    assert await migration_obstacle(room.url) is None
    old = await room.enter("conductor", release="7.0", schemas={"cell": "8000"})
    reason = await migration_obstacle(room.url)
    assert reason is not None
    assert reason.startswith("cell_one 9000: migration 9000 removes what releases before 8.0 need")
    assert old.id in reason
    assert up.id not in reason
    assert ("migration", "cell_one 9000") in await room.obstacles()
    assert await migration_obstacle(room.url, but=old.id) is None
    async with room.database("cell_one") as cell, cell.write() as tx:
        await tx.run(sa.text("UPDATE alembic_version SET version_num = '9000'"))
    assert await migration_obstacle(room.url) is None, "it is done"


async def test_processes_of_0_1_need_everything(room: Room, contract: Contract) -> None:
    await room.make()
    await room.enter("conductor", release="0.1.0", schemas={})
    assert "removes what releases before 8.0 need" in (await migration_obstacle(room.url) or "")


def test_the_command_says_it_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    room, words = Room(f"sqlite:///{tmp_path}/db"), ["upgrade", "check", "--data-dir", str(tmp_path)]
    asyncio.run(room.make())
    for code, kinds in ((0, []), (1, ["runs"])):
        if code:
            asyncio.run(room.begin("a", "resize", 1))
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        assert ended.value.code == code
        found = json.loads(capsys.readouterr().out)["upgrade"]
        assert [each["kind"] for each in found["holds_back"]] == kinds
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == code
        assert ("Nothing holds an upgrade back" in capsys.readouterr().out) == (code == 0)


def test_the_versions_of_the_databases_are_one_document_on_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "url"
    file.write_text(f"sqlite:///{tmp_path}/db")
    prepare_stores(file.read_text())
    with pytest.raises(SystemExit) as ended:
        main(["db", "show", "--database-file", str(file), "--json"])
    [line] = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0
    assert {each["store"] for each in json.loads(line)["stores"]} >= {"global", "placement"}
