"""What every store of maintenances does."""

import asyncio

import msgspec
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.contracts.lock_waits import ON_POSTGRESQL, wait_until_blocked
from tests.contracts.runs import Sagas, a_run, an_action
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.adapters.sql.global_.maintenances import SqlMaintenances
from whimbrel.adapters.sql.tables.global_ import maintenance_hosts, maintenance_items, maintenances
from whimbrel.domain.errors import Superseded
from whimbrel.domain.ids import CellName, HostName, ProjectId, ServerId, UserId
from whimbrel.domain.maintenance_goal import Drift, Goal, HostInGoal, UsedShares
from whimbrel.domain.maintenance_plan import (
    AFTER_OTHERS,
    Budgets,
    HostInMaintenance,
    Maintenance,
    MaintenanceItem,
    MaintenanceOptions,
)
from whimbrel.domain.run import Run
from whimbrel.domain.time_windows import Windows
from whimbrel.ports.stores.journal import ItemStart

BUDGETS = Budgets(zone_at_once=3, aggregate_at_once=2, project_at_once=1)
OPTIONS = MaintenanceOptions(budgets=BUDGETS, windows=Windows(texts=("22:00-04:00",), time_zone="Europe/Berlin"))
ONE = Maintenance(
    id="m1",
    name="disks",
    target="host h1",
    hosts=(HostInMaintenance(name=HostName("h1"), cell=CellName("c1")),),
    options=OPTIONS,
    user_id=UserId("u"),
    project_id=ProjectId("p"),
    created_at=1.0,
    updated_at=1.0,
)
ITEM = MaintenanceItem(
    position=0,
    server_id=ServerId("s"),
    server_name="s",
    source=HostName("h1"),
    kind="live",
    target=HostName("h2"),
    project_id=ProjectId("p"),
    state="planned",
)


async def test_a_maintenance_is_kept_as_it_was_planned(open_store: Opener) -> None:
    async with open_store("global") as db:
        store = SqlMaintenances(db)
        waiting = msgspec.structs.replace(ITEM, position=1, waits_for=(0,), due_at=AFTER_OTHERS)
        await store.add(ONE, [ITEM, waiting])
        assert await store.get(ONE.id) == ONE
        assert await store.items(ONE.id) == [ITEM, waiting]
        moved = msgspec.structs.replace(waiting, state="moved", waits_for=(0, 7))
        added = msgspec.structs.replace(
            ITEM, position=2, server_id=ServerId("t"), purpose="makes room for server s (s)"
        )
        await store.save(ONE, [moved], added=[added])
        assert await store.items(ONE.id) == [ITEM, moved, added]


async def test_one_that_an_older_program_saved_has_neither_windows_nor_their_budgets(open_store: Opener) -> None:
    older = {
        "allow_downtime": True,
        "on_drift": "replan",
        "leaves_cell": False,
        "budgets": {"at_once": 8, "host_at_once": 4, "group_at_once": 1, "most_failed": 3},
    }
    async with open_store("global") as db:
        store = SqlMaintenances(db)
        await store.add(ONE, [ITEM])
        async with db.write() as tx:
            await tx.run(sa.update(maintenances).values(options=msgspec.json.encode(older)))
            await tx.run(sa.update(maintenance_items).values(project_id=None))
        found, [item] = await store.get(ONE.id), await store.items(ONE.id)
        assert found.options == MaintenanceOptions(allow_downtime=True)
        assert item.project_id is None


async def test_those_that_ended_before_are_left_out(open_store: Opener) -> None:
    async with open_store("global") as db:
        store = SqlMaintenances(db)
        for number, finished_at in enumerate((None, 50.0, 100.0)):
            state = "aborted" if finished_at else "running"
            fields = {"id": f"m{number}", "hosts": (), "state": state, "finished_at": finished_at}
            await store.add(msgspec.structs.replace(ONE, created_at=float(number), **fields), [])
        assert [one.id for one in await store.find(ended_after=50.0)] == ["m2", "m0"]
        assert [one.id for one in await store.find(("aborted",), ended_after=50.0)] == ["m2"]
        assert [one.id for one in await store.find(("aborted",))] == ["m2", "m1"]


GOAL = Goal(
    kind="balance",
    spread=7,
    on_drift="replan",
    hosts=(
        HostInGoal(
            name=HostName("h1"),
            cell=CellName("c1"),
            before=UsedShares(memory=81.25, disk=3.0, servers=5),
            after=UsedShares(memory=50.0, disk=2.0, servers=3),
            reason="full",
        ),
    ),
)


async def test_a_goal_is_kept_with_its_hosts_which_are_not_in_maintenance(open_store: Opener) -> None:
    made = replace(ONE, hosts=(), options=replace(OPTIONS, goal=GOAL, on_drift="pause"))
    async with open_store("global") as db:
        store = SqlMaintenances(db)
        await store.add(made, [replace(ITEM, purpose="h1 is full")])
        assert await store.get(ONE.id) == made
        [item] = await store.items(ONE.id)
        assert item.purpose == "h1 is full"
        saved = await store.save(made, [replace(item, state="failed", reason="no room")])
        assert [each.purpose for each in await store.items(saved.id)] == ["h1 is full"]


class OlderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """As release 0.2 reads them."""

    allow_downtime: bool = False
    on_drift: Drift = "replan"
    leaves_cell: bool = False
    budgets: Budgets = Budgets()
    windows: Windows = Windows()


def test_options_without_a_goal_are_stored_as_by_older_programs() -> None:
    older = OlderOptions(budgets=BUDGETS, windows=OPTIONS.windows)
    assert msgspec.json.encode(OPTIONS) == msgspec.json.encode(older)


async def test_a_program_that_knows_no_goals_disables_no_host_and_chooses_no_target(open_store: Opener) -> None:
    made = replace(ONE, hosts=(), options=replace(OPTIONS, goal=GOAL, on_drift="pause"))
    async with open_store("global") as db:
        await SqlMaintenances(db).add(made, [ITEM])
        async with db.read() as tx:
            row = await tx.row(sa.select(maintenances), {})
            hosts = await tx.rows(sa.select(maintenance_hosts), {})
    assert hosts == []
    assert row
    assert msgspec.json.decode(row.options, type=OlderOptions).on_drift == "pause"


RUNNING = replace(ONE, state="running")
PACKED = HostInGoal(
    name=HostName("h2"),
    cell=CellName("c1"),
    before=UsedShares(memory=12.5, disk=3.0, servers=1),
    after=UsedShares(memory=0.0, disk=0.0, servers=0),
)
PACK = replace(ONE, id="m2", hosts=(), options=replace(OPTIONS, goal=replace(GOAL, kind="pack", hosts=(PACKED,))))


async def move_to_packed(db: Database) -> Run:
    """Start the move of m1 to the host that m2 empties."""
    run = a_run("one")
    start = ItemStart(
        maintenance_id=RUNNING.id, version=RUNNING.version, position=ITEM.position, source=None, target=HostName("h2")
    )
    return await SqlJournal(db, Sagas()).accept(run, an_action(run), item=start)


async def start_pack(db: Database) -> Maintenance:
    return await SqlMaintenances(db).save(replace(PACK, state="running"), [ITEM], takes_hosts=True)


@ON_POSTGRESQL
async def test_a_maintenance_starts_after_the_moves_that_have_not_seen_it(open_store: Opener) -> None:
    async with open_store("global") as db, open_store("global") as other:
        store = SqlMaintenances(db)
        await store.add(RUNNING, [ITEM])
        await store.add(PACK, [ITEM])
        async with db.write() as tx:  # blocks the move once it has read who has its hosts
            await tx.rows(sa.select(maintenances).where(maintenances.c.id == RUNNING.id).with_for_update())
            move = asyncio.create_task(move_to_packed(other))
            await wait_until_blocked(tx, move)
            start = asyncio.create_task(start_pack(other))
            await wait_until_blocked(tx, move, start)
            assert (move.done(), start.done()) == (False, False)
        run, started = await move, await start
        assert started.state == "running"
        assert [item.run_id for item in await store.items(RUNNING.id)] == [run.id]


@ON_POSTGRESQL
async def test_no_move_goes_to_a_host_of_a_maintenance_that_is_being_started(open_store: Opener) -> None:
    async with open_store("global") as db, open_store("global") as other:
        store = SqlMaintenances(db)
        await store.add(RUNNING, [ITEM])
        await store.add(PACK, [ITEM])
        async with db.write() as tx:  # blocks the start once it has taken the hosts
            its_items = sa.select(maintenance_items).where(maintenance_items.c.maintenance_id == PACK.id)
            await tx.rows(its_items.with_for_update())
            start = asyncio.create_task(start_pack(other))
            await wait_until_blocked(tx, start)
            move = asyncio.create_task(move_to_packed(other))
            await wait_until_blocked(tx, start, move)
        with pytest.raises(Superseded, match=r"empties host h2"):
            await move
        assert (await start).state == "running"
        assert [item.run_id for item in await store.items(RUNNING.id)] == [None]
