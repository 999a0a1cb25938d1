"""A conductor looks at the lock of a run that another one has ended meanwhile: that is no run without its lock."""

import pytest
from msgspec.structs import replace

from tests.stories.lifecycle import born
from whimbrel.domain.errors import LockLost, Superseded
from whimbrel.moves.steps.lease_check import check_lock
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.cloud.cloud import World


async def test_a_run_that_was_taken_over_and_ended_has_lost_no_lock() -> None:
    """Seed 254 of 40 steps: a slow process woke and logged an error about a create that was done."""
    world = await World.build()
    server = world.new_server("s")
    await born(world, server)
    [run] = await world.cloud.journal.find(RunFilter(subject=server.id))
    with pytest.raises(LockLost):
        await check_lock(run, world.cloud)
    with pytest.raises(Superseded) as told:
        await check_lock(replace(run, epoch=run.epoch - 1), world.cloud)
    assert not isinstance(told.value, LockLost)
    await world.close()
