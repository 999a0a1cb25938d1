"""Of the conductors of a cloud one makes the slow round for all; where it dies, another one makes the next."""

import asyncio
from itertools import pairwise

import pytest

from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.conductor.conductor import LATE_BY_S, RECONCILE_SLOWLY_S, Conductor
from whimbrel.sim.cloud.fixture import copy_into, stage
from whimbrel.sim.faults.planned_events import Size
from whimbrel.sim.world.loop import Process, new_loop

CONDUCTORS = 3
ROUNDS = 10


@pytest.mark.parametrize("dying", [False, True])
def test_one_makes_the_slow_round_for_all(monkeypatch: pytest.MonkeyPatch, dying: bool) -> None:
    begun: list[float] = []
    take_round = SqlJournal.take_round

    async def noted(journal: SqlJournal, name: str, now: float, every_s: float) -> bool:
        is_mine = await take_round(journal, name, now, every_s)
        if is_mine:
            begun.append(loop.time())
        return is_mine

    monkeypatch.setattr(SqlJournal, "take_round", noted)
    staged, _ = new_loop("stage").run_until_complete(stage(Size(hosts=1, servers=1)))
    loop = new_loop("rounds")
    world = copy_into(loop, staged)
    processes = [Process(f"conductor{number}") for number in range(CONDUCTORS)]

    async def work() -> None:
        for hypervisor in world.hypervisors.values():
            await hypervisor.guests()
        for process in processes:
            await asyncio.sleep(7.0)  # they were not started at the same moment
            loop.spawn(process, Conductor(world.cloud, world.engine_parts(process.name)).serve())
        await asyncio.sleep(RECONCILE_SLOWLY_S * ROUNDS / 2)
        processes[0].is_dead = dying
        await asyncio.sleep(RECONCILE_SLOWLY_S * ROUNDS / 2)

    loop.run_until_complete(work())
    loop.close()
    pauses = [later - earlier for earlier, later in pairwise(begun)]
    assert len(begun) >= ROUNDS - 1
    assert min(pauses) >= RECONCILE_SLOWLY_S - LATE_BY_S
    assert max(pauses) < 2 * RECONCILE_SLOWLY_S if dying else max(pauses) < RECONCILE_SLOWLY_S + LATE_BY_S
