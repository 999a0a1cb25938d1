"""A cell is disabled during a move: it gets no more servers, and an earlier choice is checked again."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from tests.booting import boot_server
from whimbrel.domain.ids import CellName
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import Invariants
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Chaos

FOUR: Mapping[str, Sequence[str]] = {"c1": ("h1",), "c2": ("m1",), "c3": ("n1",), "c4": ("o1",)}

Act = Callable[[World, Run], Awaitable[None]]


async def migrated(cells: Mapping[str, Sequence[str]], act: Act, *, leaves_cell: bool) -> tuple[World, Run, Server]:
    """Migrate a server of c1, and do something as soon as its target is chosen; return the result."""
    world = await World.build(cells=cells)
    new, engine = world.new_server("one"), world.engine("setup")
    await boot_server(world, engine, new, "h1")
    chosen: list[Run] = []

    async def after_each(touch: str) -> None:
        run = await world.cloud.journal.open_run(new.id)
        if run and run.facts.target and not chosen:
            chosen.append(run)
            await act(world, run)

    cloud = Chaos({}, after_each).wrap(world.cloud)
    engine, server = world.engine("one", cloud), await lookup.find(world.cloud, new.id)
    await requests.migrate(cloud, engine, world.requester(), server, None, leaves_cell=leaves_cell)
    await world.settle(engine)
    await Invariants(world).check()
    return world, chosen[0], await lookup.find(world.cloud, server.id)


async def disable(world: World, cell: CellName) -> None:
    await world.cloud.cell_infos.set_enabled(cell, False, "old")


async def test_an_alternate_whose_cell_was_disabled_is_passed_over() -> None:
    async def target_refuses(world: World, run: Run) -> None:
        world.hypervisors[run.facts.target.host].refusing.add("start")
        await disable(world, run.facts.alternates[0].cell)

    world, run, server = await migrated(FOUR, target_refuses, leaves_cell=True)
    _, second = run.facts.alternates
    assert (server.vm_state, server.host) == ("resized", second.host)
    await world.close()


async def test_a_target_whose_cell_was_disabled_before_it_claimed_gives_way_to_the_next() -> None:
    async def it_is_disabled(world: World, run: Run) -> None:
        await disable(world, run.facts.target.cell)

    world, run, server = await migrated(FOUR, it_is_disabled, leaves_cell=True)
    assert (server.vm_state, server.host) == ("resized", run.facts.alternates[0].host)
    await world.close()


async def test_where_all_are_disabled_the_server_stays_and_it_is_said_why() -> None:
    async def all_are(world: World, run: Run) -> None:
        for place in (run.facts.target, *run.facts.alternates):
            await disable(world, place.cell)

    world, run, server = await migrated(FOUR, all_are, leaves_cell=True)
    assert (server.vm_state, server.host) == ("active", "h1")
    over = await world.cloud.journal.get(run.id)
    assert (over.state, over.message) == ("undone", f"Cell {over.facts.target.cell} was disabled meanwhile.")
    await world.close()


async def test_who_may_not_leave_its_cell_goes_on_inside_it() -> None:
    async def home_is(world: World, run: Run) -> None:
        await disable(world, CellName("c1"))

    world, _, server = await migrated({"c1": ("h1", "h2"), "c2": ("m1",)}, home_is, leaves_cell=False)
    assert (server.vm_state, server.host) == ("resized", "h2")
    await world.close()
