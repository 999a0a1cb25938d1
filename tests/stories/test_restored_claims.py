"""Placement is restored to before the claims of an open move: it is noticed, and the move gets its claims back."""

from dataclasses import replace as with_
from functools import partial
from typing import Any

import pytest

from tests.booting import boot_server
from tests.share import share
from tests.stories.crash_snapshots import CrashSnapshot, crashes
from tests.stories.forgetting import power_on, return_to_service, some_time
from tests.stories.move_stories import LIVE_STORIES, STORIES
from tests.stories.test_lost_sources import reverting
from tests.stories.test_repair_unreachable_cells import Away
from tools.scenarios.moves import Story
from tools.scenarios.restored import _with, put_back
from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import CellName, ConsumerId, ProviderId, RunId, UserId
from whimbrel.moves import requests
from whimbrel.moves.steps.claims import claim_target
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.ledgers import check
from whimbrel.proof.proof import prove
from whimbrel.repair.service import repair
from whimbrel.restore import restore
from whimbrel.servers.lifecycle import power
from whimbrel.servers.lookup import find
from whimbrel.sim.cloud.cloud import PROJECT, World
from whimbrel.sim.faults.chaos import changes
from whimbrel.sim.runs.operator_restore import restore as operator_restore

pytestmark = pytest.mark.long

NAMES = (
    "resize of a stopped server, confirm",
    "cold migration, revert",
    "resize to another cell, confirm",
    "resize on the same host, confirm",
    "resize with ports and volumes, revert",
    "resize in a group and a zone, confirm",
    "live migration with ports and volumes",
)
TOLD = tuple(story for story in (*STORIES, *LIVE_STORIES) if story.name in NAMES)


@pytest.mark.parametrize("story", TOLD, ids=str)
async def test_no_open_move_goes_on_without_its_claims(story: Story) -> None:
    _, snapshots = await crashes(story, changes)
    older = snapshots[0].world.remains.databases["placement"]
    claimed = [snapshot for snapshot in snapshots if await _has_claimed(snapshot)]
    chosen = list(share(snapshots[1:]))
    for snapshot in (*chosen, *(each for each in claimed[:1] if each not in chosen)):
        result = await put_back(snapshot.world, snapshot.server.id, {"placement": older.copy()}, snapshot.touch)
        assert result.noticed or snapshot not in claimed, result.touch
        assert result.proof.holds, (result.touch, result.left, result.proof.violations)
        assert await check(result.world.cloud) == [], result.touch
        await result.world.close()
    assert claimed


async def _has_claimed(snapshot: CrashSnapshot) -> bool:
    """Check whether its open move has claimed its target, and does not go back."""
    found = await snapshot.world.cloud.journal.find(RunFilter(subject=snapshot.server.id, only_open=True))
    done = {entry.step for move in found if move.way == "forward" for entry in move.log if entry.outcome == "done"}
    return claim_target.__name__ in done


async def test_claims_are_made_where_the_server_was_elsewhere_when_the_copy_was_made() -> None:
    """On the target's host a disabled one is accepted: the guest of the move is there already."""
    crash, copy = await _prepared()
    hosts = await _hosts(copy)
    await copy.cloud.placement.claim(
        ELSEWHERE, ConsumerId(crash.server.id), OWNER, {hosts["h3"]: {"VCPU": 1, "MEMORY_MB": 512}}
    )
    await copy.cloud.placement.set_disabled(hosts["h2"], True)
    result = await put_back(crash.world, crash.server.id, _placement(copy), crash.touch)
    assert result.noticed
    assert result.proof.holds, (result.left, result.proof.violations)
    await result.world.close()


async def test_a_claim_without_room_is_made_when_a_repair_has_made_room() -> None:
    crash, copy = await _prepared()
    await _fill(copy)
    result = await put_back(crash.world, crash.server.id, _placement(copy), crash.touch)
    assert result.proof.holds, (result.left, result.proof.violations)
    assert [run.state for run in await result.world.cloud.journal.find(RESIZES)] == ["parked"]
    await result.world.close()


async def test_a_claim_that_is_refused_is_named_until_the_end_is_forced() -> None:
    crash, copy = await _prepared()
    await _fill(copy)
    world = _with(crash.world, _placement(copy))
    await restore.begin(world.cloud, "a copy was put back")
    for _ in range(2):
        assert await restore.close_overtaken(world.cloud, SAGAS) == []
        assert [one.target for one in (await restore.survey(world.cloud, SAGAS)).unclaimed] == [True]
    unsettled = await restore.end(world.cloud, SAGAS)
    assert unsettled
    assert any("lacks what resize" in one and "for server" in one and "2 wanted" in one for one in unsettled.reasons)
    assert await restore.end(world.cloud, SAGAS, force=True) is None
    assert await check(world.cloud) == []
    await world.close()


async def test_a_restore_that_was_not_begun_does_not_end_beside_lost_claims() -> None:
    crash, copy = await _prepared()
    world = _with(crash.world, _placement(copy))
    unsettled = await restore.end(world.cloud, SAGAS)
    assert unsettled
    assert any("lacks what resize" in one for one in unsettled.reasons)
    await world.close()


async def test_a_forced_end_does_not_need_placement() -> None:
    crash, copy = await _prepared()
    world = _with(crash.world, _placement(copy))
    await restore.begin(world.cloud, "a copy was put back")
    away: Any = Away()
    assert await restore.end(with_(world.cloud, placement=away), SAGAS, force=True) is None
    assert not (await world.cloud.restores.state()).hold
    await world.close()


async def test_claims_that_an_operator_has_changed_hold_nothing() -> None:
    crash, _ = await _prepared()
    world = crash.world
    [run] = await world.cloud.journal.find(RESIZES)
    assert await check(world.cloud) == []
    await world.cloud.placement.release(ELSEWHERE, ConsumerId(crash.server.id))
    await world.cloud.placement.release(ELSEWHERE, ConsumerId(run.id))
    assert await check(world.cloud) == []
    await world.close()


async def test_a_move_that_waits_for_its_dead_source_gets_its_claims_back() -> None:
    """Its undos wait for one that only the source can do: until then its guest on the target stays."""
    copies: dict[str, SqliteDatabase] = {}
    world, run = await reverting("plain", copies=copies)
    world = _with(world, copies)
    [noticed] = await check(world.cloud)
    assert noticed.endswith(f"has claimed for server {run.subject} on h1 and h2")
    power_on(world)
    await return_to_service(world)
    assert await operator_restore(world.cloud, world.engine("e"), world.requester, partial(some_time, world)) == []
    await some_time(world)
    assert [one.state for one in await world.cloud.journal.find(RESIZES)] == ["undone"]
    assert not (found := (await prove(world.cloud)).violations), found
    await world.close()


async def test_a_violation_of_a_server_with_a_held_run_says_how_it_is_resolved() -> None:
    """The server has moved since the copy, and its claim cannot be repaired before the run has ended."""
    world = await World.build()
    engine, made = world.engine("one"), world.new_server("s")
    await boot_server(world, engine, made, "h1")
    copies = {"placement": world.remains.databases["placement"].copy()}
    await requests.migrate(world.cloud, engine, world.requester(), await find(world.cloud, made.id), None)
    await world.settle(engine)
    await requests.confirm(world.cloud, engine, world.requester(), await find(world.cloud, made.id))
    await world.settle(engine)
    await power.stop(world.cloud, engine, world.requester(), await find(world.cloud, made.id))
    world = _with(world, copies)
    engine = world.engine("two")
    [left, *_] = await operator_restore(world.cloud, engine, world.requester, partial(some_time, world))
    assert left.endswith("whimbrel restore end --force, and whimbrel repair when it has ended")
    await some_time(world)
    await repair(world.cloud, engine, world.requester(), made.id)
    await some_time(world)
    assert not (found := (await prove(world.cloud)).violations), found
    await world.close()


ELSEWHERE = Order(RunId("another"), 1, 1)
OWNER = Owner(PROJECT, UserId("u"))
RESIZES = RunFilter(sagas=("resize",))


async def _prepared() -> tuple[CrashSnapshot, World]:
    """Return a resize whose process died when its claims were made, and a cloud with Placement as it was before it."""
    _, snapshots = await crashes(STORIES[0], changes)
    return next(each for each in snapshots if ".prepare" in each.touch), await snapshots[0].world.copy()


def _placement(copy: World) -> dict[str, SqliteDatabase]:
    return {"placement": copy.remains.databases["placement"]}


async def _hosts(world: World) -> dict[str, ProviderId]:
    return {host.name: host.id for host in await world.cloud.cell(CellName("c1")).hosts.all()}


async def _fill(copy: World) -> None:
    """Let a server that is gone by now have all of every host but the first."""
    for name, host in (await _hosts(copy)).items():
        if name != "h1":
            await copy.cloud.placement.claim(ELSEWHERE, ConsumerId(copy.cloud.ids.uuid()), OWNER, {host: {"VCPU": 4}})
