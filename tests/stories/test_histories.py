"""The history of a server agrees with its record after every story."""

import pytest

from tests.stories.lifecycle import Lifecycle, Scenario
from tests.stories.move_stories import LIVE_STORIES, STORIES
from tests.stories.test_lifecycle import SCENARIOS
from tools.scenarios.moves import Story, Trial
from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.history.history import events_of, past_of
from whimbrel.history.state_at import ServerState, server_state_at
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, Plan

EVERY = 9  # touches


async def now(world: World, server_id: ServerId) -> tuple[ServerState, Server | None]:
    """Return how a server stands by its history, and its record."""
    try:
        record = await lookup.find(world.cloud, server_id)
    except NotFound:
        record = None
    past = await past_of(world.cloud, server_id)
    result = events_of(past)
    assert [entry.at for entry in result] == sorted(entry.at for entry in result)
    assert len([entry for entry in result if entry.kind == "ended"]) == len(past.runs)
    return server_state_at(past, world.cloud.clock.now(), record.vm_state if record else None), record


def agree(standing: ServerState, record: Server | None) -> None:
    if record is None:
        assert (standing.vm_state, standing.host, standing.cell) == ("deleted", None, None)
        return
    seen = (standing.vm_state, standing.cell, standing.host, standing.flavor)
    assert seen == (record.vm_state, record.cell, record.host, record.flavor)


async def lived(trial: Trial | Lifecycle) -> int:
    """Run a story to its end, and return the number of touches."""
    result = await trial.play()
    agree(*await now(result.world, result.server.id))
    await result.world.close()
    return len(result.incarnations[0].touches)


@pytest.mark.parametrize("story", [*STORIES, *LIVE_STORIES], ids=str)
async def test_after_a_move_the_history_says_where_its_server_lives(story: Story) -> None:
    assert await lived(Trial(story))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_after_anything_else_the_history_says_how_its_server_is(scenario: Scenario) -> None:
    assert await lived(Lifecycle(scenario))


CRASHED = ("resize with ports and volumes, revert", "resize to another cell, confirm")


@pytest.mark.parametrize("story", [story for story in STORIES if story.name in CRASHED], ids=str)
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.LOST_ANSWER, Fault.UNANSWERED])
async def test_after_faults_too(story: Story, fault: Fault) -> None:
    for touch in range(0, await lived(Trial(story)), EVERY):
        plan: Plan = {touch: fault}
        await lived(Trial(story, plan))
