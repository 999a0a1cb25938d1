"""A server that moves between cells is listed, found and counted once after every touch of its move."""

from itertools import groupby

import pytest

from tests.stories.test_cells import THERE, booted, sent, two_cells
from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.moves import requests
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.scheduling.fleet import KnownFleet
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import LARGE, PROJECT, World
from whimbrel.sim.faults.chaos import Chaos


class Watch:
    """Looks as users do, and notes in which cells the server was seen."""

    def __init__(self, world: World, server_id: ServerId) -> None:
        self._world = world
        self._id = server_id
        self.homes: list[CellName | None] = []
        self.looks = 0

    async def look(self, touch: str) -> None:
        cloud = self._world.cloud
        for query in (ServerQuery(), ServerQuery(limit=1), ServerQuery(project_id=PROJECT, limit=5)):
            [seen] = await lookup.listing(cloud, query)
            assert seen.id == self._id, touch
        found = await lookup.find(cloud, self._id)
        entry = await cloud.directory.entry(self._id)
        assert found == seen, touch
        assert found.cell == entry.cell, touch
        assert (await lookup.listing(cloud, ServerQuery(host=found.host)))[0] == found, touch
        assert (await cloud.directory.usage(PROJECT)).instances == 1, touch
        self.looks += 1
        if self.homes[-1:] != [found.cell]:
            self.homes.append(found.cell)


@pytest.mark.parametrize("verdict", ["confirm", "revert"])
async def test_who_moves_is_one_server_after_every_touch(verdict: str) -> None:
    world = await two_cells()
    server = await booted(world)
    watch = Watch(world, server.id)
    engine = world.engine("one", Chaos({}, watch.look).wrap(world.cloud))
    await sent(world, server, LARGE, engine)
    assert watch.homes == [server.cell, THERE]
    say = requests.confirm if verdict == "confirm" else requests.revert
    await say(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)
    assert watch.homes == [server.cell, THERE] + ([server.cell] if verdict == "revert" else [])
    assert watch.looks > 40
    await world.close()


async def test_who_moves_loads_one_host_and_hides_nobody_else_there() -> None:
    """A copy in the other cell must not be taken for all that there is on the source."""
    world = await two_cells()
    server, _stays = await booted(world), await booted(world, "stays")
    cloud = world.cloud
    known = cloud.cells, cloud.cell_infos, cloud.aggregates, cloud.clock, cloud.rules
    seen: list[list[int]] = []

    async def look(touch: str) -> None:
        if "servers" not in touch:
            return
        loads = (await KnownFleet(*known).now()).loads
        seen.append([loads[host].servers if host in loads else 0 for host in (HostName("c1h0"), HostName("c2h0"))])

    engine = world.engine("one", Chaos({}, look).wrap(world.cloud))
    await sent(world, server, LARGE, engine)
    await requests.revert(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)
    switching = [1, 0]  # both copies are frozen
    assert [one for one, _ in groupby(seen)] == [[2, 0], switching, [1, 1], switching, [2, 0]]
    await world.close()
