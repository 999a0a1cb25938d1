"""A conductor that is woken by other processes polls seldom, and takes their work at once all the same."""

import asyncio
from collections.abc import Callable

import pytest

from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.conductor.conductor import Conductor, Pace
from whimbrel.domain.ids import ServerId
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import power
from whimbrel.sim.cloud.fixture import copy_into, stage
from whimbrel.sim.faults.planned_events import Size
from whimbrel.sim.world.loop import Process, new_loop

PACE = Pace(poll_s=1.0, woken_poll_s=100.0, reconcile_s=1e6)


class Bells:
    """Wake-ups inside one process; they get lost while `is_silent`."""

    def __init__(self, is_connected: bool = True) -> None:
        self.is_connected = is_connected
        self.is_silent = False
        self._listeners: list[Callable[[], None]] = []

    def wake(self) -> None:
        if not self.is_silent:
            for listener in self._listeners:
                listener()

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)


def taken_after_s(bells: Bells) -> tuple[float, int]:
    """Begin an operation in a process without a conductor; return when it was over, and how often the journal was asked
    while nothing was to be done.
    """
    staged, [name] = new_loop("stage").run_until_complete(stage(Size(hosts=1, servers=1)))
    loop = new_loop("woken")
    world = copy_into(loop, staged)

    async def work() -> tuple[float, int]:
        for hypervisor in world.hypervisors.values():
            await hypervisor.guests()
        conductor = Conductor(world.cloud, world.engine_parts("conductor"), pace=PACE, wake_ups=bells)
        loop.spawn(Process("conductor"), conductor.serve())
        await asyncio.sleep(10.5)
        asked = CALLS[0]
        await asyncio.sleep(50.0)
        asked = CALLS[0] - asked
        api = world.engine("api", wake_conductor=bells.wake)
        server = await lookup.find(world.cloud, ServerId(name))
        began = loop.time()
        await power.stop(world.cloud, api, world.requester(), server)
        over = 0.0
        while not over:
            await asyncio.sleep(0.1)
            over = 0.0 if await world.cloud.journal.open_run(server.id) else loop.time()
        return over - began, asked

    result = loop.run_until_complete(work())
    loop.close()
    return result


CALLS = [0]


@pytest.fixture(autouse=True)
def _count(monkeypatch: pytest.MonkeyPatch) -> None:
    take = SqlJournal.take

    async def counted(journal: SqlJournal, *arguments: object) -> object:
        CALLS[0] += 1
        return await take(journal, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SqlJournal, "take", counted)


def test_a_wake_up_replaces_polls() -> None:
    took_s, asked = taken_after_s(Bells())
    assert took_s < 10.0
    assert asked == 0


def test_a_lost_wake_up_only_costs_time() -> None:
    bells = Bells()
    bells.is_silent = True
    took_s, _ = taken_after_s(bells)
    assert took_s < PACE.woken_poll_s + 10.0


def test_without_a_bus_it_polls() -> None:
    took_s, asked = taken_after_s(Bells(is_connected=False))
    assert took_s < PACE.poll_s + 10.0
    assert asked == pytest.approx(50, abs=1)
