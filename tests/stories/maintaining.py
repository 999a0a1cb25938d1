"""Maintenances in simulated clouds: their plans, their rounds, and processes that are killed in them."""

from collections.abc import Awaitable, Callable
from dataclasses import replace as with_fields
from typing import Any

from tests.booting import boot_server
from tests.stories.mortal import Killed, Mortal, die
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ServerId
from whimbrel.domain.maintenance_plan import Budgets, Maintenance, MaintenanceItem, MaintenanceOptions
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.domain.time_windows import Windows
from whimbrel.maintenance import operator_requests as requests
from whimbrel.maintenance.execution import carry_on_all
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.placement.placement import DISABLED
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import SMALL, World

RULES = Rules(cpu_allocation_ratio=1.0)
MOVES = ("live_migrate", "migrate")
CAREFUL = MaintenanceOptions()
COLD = MaintenanceOptions(allow_downtime=True)
LIMITED = MaintenanceOptions(
    budgets=Budgets(zone_at_once=1, aggregate_at_once=1, project_at_once=1),
    windows=Windows(texts=("00:00-12:00", "12:00-24:00")),
)


async def boot(world: World, name: str, host: str, flavor: Flavor = SMALL) -> Server:
    engine, server = world.engine("setup"), world.new_server(name, flavor)
    return await boot_server(world, engine, server, host)


async def planned(world: World, options: MaintenanceOptions = CAREFUL, *hosts: str) -> Maintenance:
    found = await requests.hosts_named(world.cloud, hosts or ("h1",))
    return await requests.plan(world.cloud, world.requester(), "disks", "host h1", found, options)


async def items_of(world: World, found: Maintenance) -> list[MaintenanceItem]:
    return await world.cloud.maintenances.items(found.id)


async def rounds(world: World, found: Maintenance, most: int = 40) -> Maintenance:
    """Do rounds until a maintenance is over or paused."""
    engine = world.engine("conductor")
    for _ in range(most):
        await carry_on_all(world.cloud, engine)
        found = await world.cloud.maintenances.get(found.id)
        if found.state in ("done", "aborted", "paused"):
            return found
        await world.settle(engine)
        await world.cloud.clock.sleep(2.0)
    raise AssertionError(f"it is still {found.state}: {await items_of(world, found)}")


async def moves_of(world: World, server: ServerId) -> list[Run]:
    return await world.cloud.journal.find(RunFilter(subject=server, sagas=MOVES))


async def home(world: World, server: Server) -> str | None:
    return (await lookup.find(world.cloud, server.id)).host


async def traits_of(world: World, host: str) -> frozenset[str]:
    [found] = await requests.hosts_named(world.cloud, [host])
    return (await world.placement.node(found.id)).traits


async def assert_switched(world: World, found: Maintenance, *, enabled: bool) -> None:
    """Assert that the host is enabled or disabled, for the scheduler and for claims."""
    [host] = await requests.hosts_named(world.cloud, ["h1"])
    assert (host.enabled, host.disabled_reason) == (enabled, None if enabled else found.disabled_reason)
    assert (DISABLED not in await traits_of(world, "h1")) == enabled


def mortal(world: World, life: list[int], before: bool, then: Callable[[], Awaitable[None]] = die) -> Cloud:
    """Return the cloud for a process that is killed at a write, or during which something else happens there."""

    def of(store: Any, *writes: str) -> Any:
        return Mortal(store, writes, life, before, then)

    cloud = world.cloud
    cells = {name: with_fields(cell, hosts=of(cell.hosts, "set_service")) for name, cell in cloud.cells.items()}
    changed: Any = with_fields(
        cloud,
        maintenances=of(cloud.maintenances, "save"),
        journal=of(cloud.journal, "accept", "forget", "save", "judge", "give_verdict"),
        placement=of(cloud.placement, "set_disabled"),
        cells=cells,
    )
    return changed  # type: ignore[no-any-return]


async def ends_though_killed(world: World, found: Maintenance, number: int, before: bool) -> bool:
    """Kill a process at a write of the start or of a round, and let another one go on. Return whether it was killed."""
    was_killed = await killed_in(world, requests.start, found, number, before)
    if (await world.cloud.maintenances.get(found.id)).state == "planned":
        await requests.start(world.cloud, found.id)
    assert (await rounds(world, found)).state == "done"
    return was_killed


async def killed_in(
    world: World, request: Callable[[Cloud, str], Awaitable[Any]], found: Maintenance, number: int, before: bool
) -> bool:
    """Kill a process at a write of a request or of the rounds after it. Return whether it was killed."""
    life = [number]
    try:
        await request(mortal(world, life, before), found.id)
        for _ in range(6):
            cloud = mortal(world, life, before)
            await carry_on_all(cloud, world.engine("victim", cloud))
            await world.settle(world.engine("steps"))
            await world.cloud.clock.sleep(2.0)
    except Killed:
        return True
    return False
