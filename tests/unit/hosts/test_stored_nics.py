"""The network cards of all hosts: read seldom, but never missing for a host that is asked for."""

from tests.contracts.test_hosts import AGENT, host
from tests.hand_clock import HandClock
from tests.unit.hosts.descriptions import description
from whimbrel.adapters.sql.cell.hosts import SqlHosts
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import CellName
from whimbrel.hosts.stored_nics import MAX_AGE_S, MISS_AGE_S, StoredNics
from whimbrel.ports.cloud import Cell
from whimbrel.sim.cloud.cloud import World

C1 = CellName("c1")


class Processes:
    """The cells as one process has them, and the hosts' store of another process."""

    def __init__(self, world: World) -> None:
        self.cells: dict[CellName, Cell] = {C1: world.cloud.cell(C1)}
        self.own = world.cloud.cell(C1).hosts
        self.other = SqlHosts(world.remains.databases["cell_c1"], C1)
        self.clock = HandClock()
        self.nics = StoredNics(self.cells, self.clock)


async def test_a_host_that_another_process_registered_is_found_when_it_is_asked_for() -> None:
    world = await World.build(cells={"c1": ("h1",)})
    two = Processes(world)
    assert await two.nics.all() == {}
    await two.other.begin_session(host("a"), AGENT, description("a"))
    await two.clock.advance(MISS_AGE_S)
    assert await two.nics.all() == {}
    assert await two.nics.including("") == {}
    assert await two.nics.including("a") == {"a": description("a").net}
    await world.close()


async def test_changes_are_seen_at_once_or_after_some_seconds() -> None:
    world = await World.build(cells={"c1": ("h1",)})
    two = Processes(world)
    await two.own.begin_session(host("a"), AGENT, description("a"))
    assert list(await two.nics.all()) == ["a"]
    bare = HostNet(host="a")
    await two.other.describe(host("a"), 1, description("a", net=bare))
    assert await two.nics.including("a") == {"a": description("a").net}
    await two.clock.advance(MAX_AGE_S)
    assert await two.nics.including("a") == {"a": bare}
    await two.own.delete(description("a").name)
    assert await two.nics.all() == {}
    await world.close()
