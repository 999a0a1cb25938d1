"""However a story goes, the history agrees with the record that it left: nothing changes how a server stands unseen."""

import pytest

from tests.stories.living import Living, Tale
from tests.stories.telling import STORIES
from tests.stories.test_lives import TALES
from tools.scenarios.moves import Story, Telling
from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.history.history import past_of, tell
from whimbrel.history.state_at import ServerState, server_state_at
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, Plan

EVERY = 9  # touches


async def now(world: World, server_id: ServerId) -> tuple[ServerState, Server | None]:
    """Give how a server stands by its history, and its record."""
    try:
        record = await lookup.find(world.cloud, server_id)
    except NotFound:
        record = None
    past = await past_of(world.cloud, server_id)
    told = tell(past)
    assert [entry.at for entry in told] == sorted(entry.at for entry in told)
    assert len([entry for entry in told if entry.kind == "ended"]) == len(past.runs)
    return server_state_at(past, world.cloud.clock.now(), record.vm_state if record else None), record


def agree(standing: ServerState, record: Server | None) -> None:
    if record is None:
        assert (standing.vm_state, standing.host, standing.cell) == ("deleted", None, None)
        return
    seen = (standing.vm_state, standing.cell, standing.host, standing.flavor)
    assert seen == (record.vm_state, record.cell, record.host, record.flavor)


async def lived(telling: Telling | Living) -> int:
    """Tell a story to its end, and give how many touches that took."""
    told = await telling.tell()
    agree(*await now(told.world, told.server.id))
    await told.world.close()
    return len(told.lives[0].touches)


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_after_a_move_the_history_says_where_its_server_lives(story: Story) -> None:
    assert await lived(Telling(story))


@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_after_anything_else_the_history_says_how_its_server_is(tale: Tale) -> None:
    assert await lived(Living(tale))


CRASHED = ("resize with ports and volumes, revert", "resize to another cell, confirm")


@pytest.mark.parametrize("story", [story for story in STORIES if story.name in CRASHED], ids=str)
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.LOST_ANSWER, Fault.UNANSWERED])
async def test_after_faults_too(story: Story, fault: Fault) -> None:
    for touch in range(0, await lived(Telling(story)), EVERY):
        plan: Plan = {touch: fault}
        await lived(Telling(story, plan))
