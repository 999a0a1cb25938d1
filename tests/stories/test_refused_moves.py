"""Moves that are refused by name: nothing was touched, and the reason is in the journal."""

import pytest

from tools.scenarios.moves import Story, Trial
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.checks.invariants import books

REFUSED = (
    Story("live migration with a virtual function", "confirm", live=True, function=True),
    Story("live migration with devices of the flavor", "confirm", live=True, alias=True),
    Story("live migration with a virtual function to another cell", "confirm", live=True, function=True, crosses=True),
    Story("live migration with devices of the flavor to another cell", "confirm", live=True, alias=True, crosses=True),
)


@pytest.mark.parametrize("story", REFUSED, ids=str)
async def test_it_is_refused_and_as_before(story: Story) -> None:
    result = await Trial(story).play()
    [run] = await result.world.cloud.journal.find(RunFilter(subject=result.server.id, sagas=["live_migrate"]))
    assert (run.state, run.turned) == ("undone", "refused")
    assert "PCI device" in (run.message or "")
    assert await books(result.world) == result.before
    await result.world.close()
