"""One story for each guard of a cloud whose databases were restored; mutants of the guards run them."""

from collections.abc import Collection, Iterator, Mapping

import pytest

from tests.stories.choosing import chosen
from tests.stories.move_stories import STORIES
from tests.stories.plays import Group, alone
from tests.stories.test_crashes import touches_of
from tools.scenarios.moves import Trial
from tools.scenarios.restored import play
from whimbrel.domain.errors import Superseded, Unavailable
from whimbrel.ports.cloud import Cloud
from whimbrel.saga.engine import Engine
from whimbrel.servers.lifecycle import create
from whimbrel.sim.faults.chaos import changes

STOPS: Mapping[Collection[str], str] = {
    ("global", "cell", "placement"): "host h",
    ("global", "cell"): "placement has",
    ("global", "placement"): "the cell has",
    ("global",): "does not hold the lock",
}
"""Databases that are put back -> in the reason for which some run stops: the guard that still knows better."""

[STOPPED] = (story for story in STORIES if story.name == "resize of a stopped server, confirm")


def groups() -> Iterator[Group]:
    for act in (
        holds_what_is_open,
        holds_what_waits,
        a_start_notices,
        every_guard_stops_a_run,
    ):
        yield alone(act.__name__, act)


class Begun(Trial):
    """A move that was accepted, and that nobody drives."""

    async def _drive(self, cloud: Cloud, engine: Engine) -> None:
        return None


async def holds_what_is_open() -> None:
    """Hold all runs as a move begins: no other is accepted, and this one is neither taken nor saved."""
    trial = Begun(STOPPED)
    await trial.set_the_scene()
    world, engine = trial.world, trial.world.engine("e")
    cloud = world.cloud
    await trial.move(cloud, engine)
    run = await cloud.journal.open_run(trial.server.id)
    assert run is not None
    await cloud.restores.hold("a story says so", cloud.clock.now())
    await cloud.clock.sleep(engine.lease_s + 1)
    assert await cloud.journal.take("e", cloud.clock.now(), engine.lease_s, 10) == [], "a run was taken"
    with pytest.raises(Superseded):
        await cloud.journal.save(run)
    with pytest.raises(Unavailable):
        await create.accept(cloud, engine, world.requester(), [world.new_server("other")])
    await world.close()


async def holds_what_waits() -> None:
    """Hold all runs while a move waits for its verdict: none is heard."""
    trial = Trial(STOPPED)
    await trial.set_the_scene()
    world, engine = trial.world, trial.world.engine("e")
    await trial.move(world.cloud, engine)
    await world.cloud.restores.hold("a story says so", world.cloud.clock.now())
    with pytest.raises(Unavailable):
        await trial.say(world.cloud, engine)
    await world.close()


async def a_start_notices() -> None:
    for touch in await _touches():
        result = await play(STOPPED, touch, ("global",))
        await result.world.close()
        if result.noticed:
            return
    raise AssertionError("no start notices that the journal is behind")


async def every_guard_stops_a_run() -> None:
    """Run with a journal that no start compares: each guard stops a run that the others cannot stop."""
    for which, stop in STOPS.items():
        assert await _stops(which, stop), f"nothing stops because of: {stop}"


async def _stops(which: Collection[str], stop: str) -> bool:
    for touch in await _touches():
        result = await play(STOPPED, touch, which, checked=False)
        await result.world.close()
        if stop in result.stopped_by:
            return True
    return False


async def _touches() -> list[int]:
    return [number for number, _ in chosen(await touches_of(STOPPED), changes)][::2]
