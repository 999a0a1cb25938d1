"""A guest has left its source, and its target has not heard of it yet: nothing is undone, whatever was asked."""

from contextlib import suppress

import pytest

from tools.scenarios.moves import Story, Trial
from whimbrel.domain.errors import WorldError
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName
from whimbrel.moves import live_requests
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup

STORY = Story("live migration whose target hears late", "confirm", live=True, slow=True, host="h2")
LONG_S = 1000.0


async def test_a_guest_that_has_left_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves just before its transfer is ended, as was asked, and the target cannot ask the source for a while."""
    trial = Trial(STORY)
    await trial.set_the_scene()
    world, cloud = trial.world, trial.world.cloud
    source, target = world.hypervisors[HostName("h1")], world.hypervisors[HostName("h2")]
    engine, clock = world.engine("e"), cloud.clock
    is_deaf = True
    look_for, end, sleep = target._transfers.look_for, source.end_transfer, clock.sleep

    async def hears_late(key: GuestKey) -> None:
        if not is_deaf:
            await look_for(key)

    async def leaves_first(key: GuestKey) -> None:
        await sleep(LONG_S)
        await end(key)
        left = await source.look(key)
        assert left
        assert left.power == "stopped"

    async def abort_meanwhile(seconds: float) -> None:
        nonlocal is_deaf
        await sleep(seconds)
        [run] = await cloud.journal.find(RunFilter(subject=trial.server.id, sagas=["live_migrate"]))
        if run.at == "transfer" and not run.verdict:
            with suppress(WorldError):
                await live_requests.abort(cloud, engine, world.requester(), await lookup.find(cloud, run.subject), run)
        is_deaf = run.at == "transfer"

    monkeypatch.setattr(target._transfers, "look_for", hears_late)
    monkeypatch.setattr(source, "end_transfer", leaves_first)
    monkeypatch.setattr(clock, "sleep", abort_meanwhile)
    await trial.move(cloud, engine)
    for _ in range(20):
        await world.settle(engine)
    [run] = await cloud.journal.find(RunFilter(subject=trial.server.id, sagas=["live_migrate"]))
    assert run.verdict == "revert"
    assert (run.state, run.way) == ("done", "forward"), run.message
    assert (await lookup.find(cloud, run.subject)).host == "h2"
    await world.close()
