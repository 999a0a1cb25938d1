"""Users who ask for the next thing as soon as a server shows that the last one is done: nobody is told to wait.

A record is unlocked in its cell before its run is closed in the journal: these are two databases.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.api.front import Front, fault
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.run import Run
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.cloud.cloud import World


class Slow:
    """A journal that is slow to write down that a run is over, and then hears that it was taken over."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self.asleep, self.wake = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def save(self, run: Run, *more: Any, **named: Any) -> None:
        if run.state == "done":
            self.asleep.set()
            await self.wake.wait()
        await self._journal.save(run, *more, **named)


@asynccontextmanager
async def asleep_at_the_end(world: World) -> AsyncIterator[None]:
    """Make a conductor drive what is due up to where the journal is slow, and let him wake when all else is done."""
    journal = Slow(world.cloud.journal)
    engine = world.engine("slow", replace(world.cloud, journal=journal))
    settling = asyncio.create_task(world.settle(engine))
    await journal.asleep.wait()
    yield
    journal.wake.set()
    await settling


async def runs(front: Front, server_id: str) -> list[tuple[str, str]]:
    found = await front.world.cloud.journal.find(RunFilter(subject=server_id))
    return [(run.saga, run.state) for run in found]


@pytest.mark.parametrize(
    ("action", "who", "saga"),
    [
        ({"resize": {"flavorRef": "2"}}, "member", "resize"),
        ({"migrate": None}, "admin", "migrate"),
        ({"os-stop": None}, "member", "stop"),
    ],
)
async def test_a_server_that_shows_active_can_be_acted_on(
    front: Front, action: Mapping[str, Any], who: str, saga: str
) -> None:
    server_id = await front.boot(settle=False)
    async with asleep_at_the_end(front.world):
        assert (await front.show(server_id))["status"] == "ACTIVE"
        assert (await front.act(server_id, action, who=who)).status_code == 202
        assert await runs(front, server_id) == [(saga, "open"), ("create", "done")]
    await front.settle()
    assert (await front.show(server_id))["status"] == ("SHUTOFF" if saga == "stop" else "VERIFY_RESIZE")
    [create] = await front.world.cloud.journal.find(RunFilter(subject=server_id, sagas=["create"]))
    assert [entry.step for entry in create.log][-1] == "activate"


async def test_what_is_still_under_way_is_refused(front: Front) -> None:
    server_id = await front.boot()
    await front.act(server_id, {"os-stop": None})
    fault(await front.act(server_id, {"os-stop": None}), "conflictingRequest", 409)
    assert await runs(front, server_id) == [("stop", "open"), ("create", "done")]
    await front.settle()


async def test_a_last_line_that_does_not_answer_is_left_to_a_conductor(front: Front) -> None:
    server_id = await front.boot(settle=False)
    cloud = front.world.cloud
    async with asleep_at_the_end(front.world):
        [cell] = cloud.cells.values()
        unreachable = replace(cloud, cells={cell.name: replace(cell, servers=Unreachable(cell.servers))})
        engine = front.world.engine("door", unreachable)
        [run] = await cloud.journal.find(RunFilter(subject=server_id))
        assert not await engine.finish(run)
        assert (await cloud.journal.get(run.id)).owner is None
    await front.settle()
    assert await runs(front, server_id) == [("create", "done")]


class Unreachable:
    """Records of a cell whose database takes no writes."""

    def __init__(self, servers: Any) -> None:
        self._servers = servers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._servers, name)

    async def unlock(self, *_: Any) -> None:
        raise Unavailable("the cell's database does not answer")
