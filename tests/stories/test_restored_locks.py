"""A cell is restored to where a run that has ended since locked a server, and another run waits for the lock."""

from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tests.stories.test_repair import a_scene
from tools.scenarios import restored
from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.proof import prove
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import delete, power
from whimbrel.sim.faults.chaos import Chaos, Crash
from whimbrel.sim.runs.operator_restore import restore

pytestmark = pytest.mark.long

CELL, LOCK = "cell_c1", "c1.servers.lock"


@pytest.mark.parametrize("request_", [power.stop, delete.accept], ids=["stop", "delete"])
async def test_a_run_that_cannot_get_the_lock_does_not_hide_it(request_: Any) -> None:
    scene = await a_scene()
    world, server, copies, touches = scene.world, scene.plain, dict[str, SqliteDatabase](), list[str]()

    async def keep(touch: str) -> None:
        touches.append(touch)
        if touch == LOCK and not copies:
            copies[CELL] = world.remains.databases[CELL].copy()

    async def die(touch: str) -> None:
        if touch == LOCK:
            raise Crash

    before = world.engine("before", Chaos({}, keep).wrap(world.cloud))
    for act in (power.stop, power.start):
        await act(before.parts.world, before, world.requester(), await lookup.find(world.cloud, server.id))
        await world.settle(before)
    assert copies, touches
    last = Chaos({}, die).wrap(world.cloud)
    with suppress(Crash):
        await request_(last, world.engine("last", last), world.requester(), await lookup.find(world.cloud, server.id))
    [waiting] = await world.cloud.journal.find(RunFilter(only_open=True))
    assert waiting.subject == server.id
    world = restored._with(world, copies)
    engine = world.engine("restored")
    left = await restore(world.cloud, engine, world.requester, partial(restored._drive_often, world, engine, 3))
    await restored._drive_often(world, engine, restored.ROUNDS)
    proof = await prove(world.cloud)
    assert proof.holds, (left, proof.violations)
    assert await world.cloud.journal.find(RunFilter(only_open=True)) == []
