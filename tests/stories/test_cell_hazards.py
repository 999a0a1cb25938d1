"""Moves between cells with outdated readers, and with deletes at any moment."""

from collections.abc import Awaitable, Callable

import pytest

from tests.stories.choosing import chosen
from tests.stories.test_cells import THERE, booted, two_cells
from tests.stories.test_crashes import touches_of
from tests.stories.test_switches import TOLD
from tools.scenarios.moves import Story, Trial
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.servers import edit, lookup
from whimbrel.servers.lifecycle import delete, power
from whimbrel.sim.checks.invariants import Invariants, books
from whimbrel.sim.cloud.cloud import IMAGE, World
from whimbrel.sim.faults.chaos import changes

# Who looked long before


async def moved_for_good(world: World) -> Server:
    """Move a server to the other cell and confirm it; return its record from before."""
    engine, before = world.engine("one"), await booted(world)
    await requests.migrate(world.cloud, engine, world.requester(), before, None, leaves_cell=True)
    await world.settle(engine)
    await requests.confirm(world.cloud, engine, world.requester(), await lookup.find(world.cloud, before.id))
    await world.settle(engine)
    assert (await lookup.find(world.cloud, before.id)).cell == THERE
    return before


ASKED: dict[str, Callable[[World, Server], Awaitable[object]]] = {
    "a change": lambda world, server: edit.change(world.cloud, server, {"name": "new"}),
    "a reboot": lambda world, server: power.reboot(
        world.cloud, world.engine("u"), world.requester(), server, hard=True
    ),
    "a migration": lambda world, server: requests.migrate(
        world.cloud, world.engine("u"), world.requester(), server, None
    ),
}


@pytest.mark.parametrize("asked", ASKED)
async def test_who_looked_before_a_move_is_advised_to_look_again_and_not_that_the_server_is_gone(asked: str) -> None:
    world = await two_cells()
    before = await moved_for_good(world)
    with pytest.raises(Conflict, match="moved meanwhile"):
        await ASKED[asked](world, before)
    assert await world.cloud.journal.open_run(before.id) is None
    await Invariants(world).check()


async def test_who_looked_before_a_move_and_deletes_has_it_deleted() -> None:
    world = await two_cells()
    before = await moved_for_good(world)
    await delete.accept(world.cloud, world.engine("user"), world.requester(), before)
    await deleted_in_time(world, before)


async def deleted_in_time(world: World, server: Server) -> None:
    """See that nothing is left of a server."""
    engine = world.engine("the last one")
    while await world.cloud.directory.homes():
        await reconcile(world.cloud, engine)
        await world.settle(engine)
    with pytest.raises(NotFound):
        await lookup.find(world.cloud, server.id)
    found = await books(world)
    assert (found["guests"], found["claims"], found["images"], found["records"]) == ([], [], [IMAGE], [])
    assert (found["ports"], found["attachments"], found["pci"]) == ([], [], [])
    await Invariants(world).check()


# Who deletes at any moment


class Deleted(Trial):
    """Its owner deletes the server after one touch."""

    def __init__(self, story: Story, at: int) -> None:
        super().__init__(story)
        self._deletes = at + 1
        self.done = False

    async def after_each(self, touch: str) -> None:
        await super().after_each(touch)
        if len(self.incarnations[0].touches) == self._deletes and not self.done:
            self.done = True
            world = self.world
            server = await lookup.find(world.cloud, self.server.id)
            await delete.accept(world.cloud, world.engine("owner"), world.requester(), server)


@pytest.mark.long
@pytest.mark.parametrize("story", TOLD, ids=str)
async def test_who_is_deleted_at_any_moment_of_his_move_is_deleted(story: Story) -> None:
    for at, _ in chosen(await touches_of(story), changes):
        trial = Deleted(story, at)
        result = await trial.play()
        assert trial.done
        await deleted_in_time(result.world, result.server)
        await result.world.close()
