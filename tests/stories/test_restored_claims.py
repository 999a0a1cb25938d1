"""Placement is restored to before the claims of an open move: it is noticed, and the move gets its claims back."""

import pytest

from tests.share import share
from tests.stories.crash_snapshots import crashes
from tests.stories.move_stories import STORIES
from tools.scenarios.moves import Story
from tools.scenarios.restored import put_back
from whimbrel.domain.ids import CellName
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.ledgers import check
from whimbrel.servers import lookup
from whimbrel.sim.faults.chaos import changes

pytestmark = pytest.mark.long

NAMES = (
    "resize of a stopped server, confirm",
    "cold migration, revert",
    "resize to another cell, confirm",
    "resize on the same host, confirm",
    "resize with ports and volumes, revert",
)
TOLD = tuple(story for story in STORIES if story.name in NAMES)


@pytest.mark.parametrize("story", TOLD, ids=str)
async def test_no_open_move_goes_on_without_its_claims(story: Story) -> None:
    _, snapshots = await crashes(story, changes)
    older = snapshots[0].world.remains.databases["placement"]
    noticed = 0
    for snapshot in share(snapshots[1:]):
        result = await put_back(snapshot.world, snapshot.server.id, {"placement": older.copy()}, snapshot.touch)
        assert result.held_at_once == bool(result.noticed), result.touch
        assert result.proof.holds, (result.touch, result.left, result.proof.violations)
        assert await check(result.world.cloud) == [], result.touch
        noticed += bool(result.noticed)
        await result.world.close()
    assert noticed


async def test_a_move_to_a_host_that_refuses_its_claim_is_closed() -> None:
    [story] = [story for story in TOLD if story.stopped]
    _, snapshots = await crashes(story, changes)
    world = snapshots[0].world
    for host in await world.cloud.cell(CellName("c1")).hosts.all():
        await world.cloud.placement.set_disabled(host.id, host.name != "h1")
    older = world.remains.databases["placement"]
    cut_off = next(each for each in snapshots if ".prepare" in each.touch)
    result = await put_back(cut_off.world, cut_off.server.id, {"placement": older.copy()}, cut_off.touch)
    assert result.proof.holds, (result.left, result.proof.violations)
    [run] = await result.world.cloud.journal.find(RunFilter(sagas=("resize",)))
    assert run.state == "undone"
    assert "its claims were lost with Placement's database; The host is disabled" in (run.message or "")
    assert (await lookup.find(result.world.cloud, cut_off.server.id)).host == "h1"
