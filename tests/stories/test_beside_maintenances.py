"""Two maintenances that begin at the same moment: one has a host, whatever dies, and no server moves twice."""

import pytest
from msgspec.structs import replace

from tests.stories.maintaining import CAREFUL, RULES, boot, home, items_of, mortal, moves_of, planned, rounds
from tests.stories.mortal import BEFORE_OR_AFTER, Killed, at_each_write
from tests.stories.test_intermediate_moves import fragmented
from tests.stories.test_maintenance_goals import PACK, options, use
from whimbrel.domain.ids import HostName
from whimbrel.domain.maintenance_plan import Maintenance
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.maintenance import operator_requests as requests
from whimbrel.maintenance.execution import carry_on_all
from whimbrel.sim.cloud.cloud import LARGE, SMALL, World

HOSTS = ("h1", "h2", "h3", "h4")


async def beside() -> tuple[World, list[Server], Maintenance, Maintenance]:
    """Return servers of h4, h2, h2 and h3, a maintenance that empties h4 to h3, and a pack that empties h3."""
    world = await World.build(HOSTS, rules=RULES)
    homes = (("a", "h4", LARGE), ("b", "h2", LARGE), ("c", "h2", SMALL), ("d", "h3", SMALL))
    servers = [await boot(world, name, host, flavor) for name, host, flavor in homes]
    empty = await planned(world, CAREFUL, "h4")
    [item] = await items_of(world, empty)
    empty = await world.cloud.maintenances.save(empty, [replace(item, target=HostName("h3"))])
    pack = await planned(world, options(PACK), "h2", "h3")
    assert use(pack)["h3"].becomes_empty
    return world, servers, empty, pack


@BEFORE_OR_AFTER
@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
async def test_a_pack_may_begin_at_each_write_of_another_maintenance(killed: bool, before: bool) -> None:
    assert await at_each_write(lambda number: packed_at(number, before, killed)) > 8


async def packed_at(number: int, before: bool, killed: bool) -> bool:
    """Start the pack at a write of the start or of a round of the other one. Return whether there was such a write."""
    world, servers, empty, pack = await beside()
    life, under_way = [number], list[Run]()

    async def begin() -> None:
        under_way.extend(await moves_of(world, servers[0].id))
        await requests.start(world.cloud, pack.id)
        if killed:
            raise Killed

    try:
        await requests.start(mortal(world, life, before, begin), empty.id)
        for _ in range(6):
            cloud = mortal(world, life, before, begin)
            await carry_on_all(cloud, world.engine("victim", cloud))
            await world.settle(world.engine("steps"))
            await world.cloud.clock.sleep(2.0)
    except Killed:
        pass
    if (await world.cloud.maintenances.get(empty.id)).state == "planned":
        await requests.start(world.cloud, empty.id)
    if has_begun := life[0] <= 0:
        assert (await rounds(world, pack)).state == "done"
        assert (await rounds(world, empty)).state == "done"
        assert [len(await moves_of(world, server.id)) for server in servers] == [1, 0, 0, 1]
        assert [await home(world, server) for server in servers[1:]] == ["h2"] * 3
        assert await home(world, servers[0]) == ("h3" if under_way else "h1")
    await world.close()
    return has_begun


async def test_no_server_of_a_host_in_another_maintenance_makes_room() -> None:
    world = await fragmented()
    pack = await planned(world, options(PACK), "h2", "h3")
    early = await planned(world, CAREFUL)
    assert [item.server_name for item in await items_of(world, early)] == ["c", "big"]
    await requests.start(world.cloud, pack.id)
    await requests.pause(world.cloud, pack.id)
    late = await planned(world, CAREFUL)
    assert [(item.server_name, item.state) for item in await items_of(world, late)] == [("big", "stays")]
    await requests.start(world.cloud, early.id)
    assert (await rounds(world, early)).state == "done"
    c, big = await items_of(world, early)
    assert (c.state, c.reason) == ("left", f"maintenance {pack.name} ({pack.id}) has host h3")
    assert big.state == "failed"
    await world.close()
