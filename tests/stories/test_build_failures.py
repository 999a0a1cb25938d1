"""A host that fails to build servers is left to the last, until it has built one."""

from msgspec.structs import replace

from tests.booting import boot_server
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.moves.steps.build_failures import count_failure
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.cloud.cloud import CELL, World

H1, H2 = HostName("h1"), HostName("h2")
RULES = Rules(cpu_allocation_ratio=16.0, ram_allocation_ratio=16.0, disk_allocation_ratio=16.0)


async def made(world: World, name: str, host: HostName | None = None) -> Server:
    engine = world.engine("e")
    new = replace(world.new_server(name), hostname=name)
    return await boot_server(world, engine, new, host)


async def failed(world: World) -> dict[HostName, int]:
    loads = (await world.cloud.cell(CELL).hosts.news(None)).loads
    return {host: load.failed_builds for host, load in loads.items() if load.failed_builds}


async def left_to_the_last() -> None:
    world = await World.build(rules=RULES)
    world.hypervisors[H1].refusing.add("start")
    await made(world, "full", H2)  # so that it is the fuller one
    for name in ("one", "two"):
        assert (await made(world, name, H1)).vm_state == "error"
    assert await failed(world) == {H1: 2}
    world.hypervisors[H1].refusing.clear()
    for number in range(6):
        assert (await made(world, f"s{number}")).host != H1
    assert (await made(world, "again", H1)).host == H1
    assert await failed(world) == {}
    await world.close()


async def failed_over() -> None:
    world = await World.build(rules=RULES)
    for hypervisor in world.hypervisors.values():
        hypervisor.refusing.add("start")
    assert (await made(world, "one")).vm_state == "error"
    assert await failed(world) == {H1: 1, H2: 1, HostName("h3"): 1}  # each was an alternate in its turn
    await world.close()


async def _counted_once() -> None:
    world = await World.build(rules=RULES)
    server = await made(world, "one", H1)
    [run] = await world.cloud.journal.find(RunFilter(subject=server.id))
    await world.cloud.clock.sleep(1.0)
    await count_failure(replace(run, turned="asked"), world.cloud)
    assert await failed(world) == {}
    for _ in range(2):
        await count_failure(replace(run, turned="refused"), world.cloud)
    assert await failed(world) == {H1: 1}
    await world.close()


async def test_each_host_that_was_tried_counts_its_failure() -> None:
    await failed_over()


async def test_a_failure_counts_once_and_not_where_somebody_asked_to_turn_back() -> None:
    await _counted_once()


async def test_failures_count_until_a_build_succeeds() -> None:
    await left_to_the_last()
