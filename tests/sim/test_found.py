"""What the simulator has found: short stories that broke an invariant once, told again."""

from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tests.booting import boot_server
from tests.sim.test_run import check
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import Refused, Superseded
from whimbrel.domain.ids import RunId, ServerId
from whimbrel.moves import requests
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.moves.resize import RESIZE
from whimbrel.moves.steps import ports, volumes
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.reconcilers.late_effects_round import LATEST_S
from whimbrel.reconcilers.rounds import reconcile_slowly
from whimbrel.saga.step import SagaRegistry
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create_image, delete
from whimbrel.sim.checks import at_rest
from whimbrel.sim.checks.invariants import Invariants
from whimbrel.sim.cloud.cloud import IMAGE, LARGE, World
from whimbrel.sim.faults.chaos import Chaos, Fault, Plan
from whimbrel.sim.faults.planned_events import from_document
from whimbrel.sim.runs.simulation import run
from whimbrel.sim.world.equipment import PORT, with_devices

OPEN = RunFilter(only_open=True)
FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.stem)
def test_a_story_that_failed_once(file: Path) -> None:
    document = msgspec.json.decode(file.read_bytes())
    assert document.pop("whimbrel") == "story"
    check(run(from_document(document)))


@pytest.mark.parametrize("version", [1, 2])
async def test_a_hand_over_that_comes_after_its_undo(version: int) -> None:
    """Seed 4 of 25 steps: an operator turned a move back while the network was asked to hand its ports over."""
    await hand_over_late(version)


def of_version(version: int) -> SagaRegistry:
    """Return all lists, those of moves in one version only."""
    return SagaRegistry(*(saga for saga in SAGAS if saga.name not in MOVE_SAGAS or saga.version == version))


async def hand_over_late(version: int = RESIZE.version) -> None:
    world = await World.build(rules=Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0), equipped=True)
    world.registry = of_version(version)
    engine, made = world.engine("one"), with_devices(world.new_server("s"))
    server = await boot_server(world, engine, made, "h1")
    await requests.resize(world.cloud, engine, world.requester(), server, LARGE)
    await world.settle(engine)
    [run_id] = [one.id for one in await world.cloud.journal.find(OPEN)]
    late: list[str] = []

    async def hand_over_again(touch: str) -> None:
        moved = await world.cloud.journal.get(RunId(run_id))
        last = moved.log[-1]
        if not late and (last.step, last.way) == ("activate_target", "undo"):
            late.append(touch)
            await world.remains.network.activate_binding(PORT, moved.facts.target.host)

    engine = world.engine("two", Chaos({}, hand_over_again).wrap(world.cloud))
    await requests.revert(world.cloud, engine, world.requester(), await lookup.find(world.cloud, made.id))
    await world.settle(engine)
    assert late
    assert (await world.cloud.network.port(PORT)).host == "h1"
    moved = await world.cloud.journal.get(RunId(run_id))
    assert moved.state == "undone"
    assert all(entry.outcome != "debt" for entry in moved.log), "its guest had to wait for the ports"
    await Invariants(world).check()
    await world.close()


async def test_volumes_are_returned_if_the_guest_was_not_stopped() -> None:
    """On version 1 of the list, as it was released: by the attachments that the source has."""
    world = await World.build(("h1", "h2"), rules=Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0), equipped=True)
    world.registry = of_version(1)
    engine, made = world.engine("one"), with_devices(world.new_server("s"))
    await boot_server(world, engine, made, "h1")
    before = (await lookup.find(world.cloud, made.id)).volumes
    rehearsal = await world.copy()
    rehearsal.registry = world.registry
    stop = (await resized(rehearsal, made.id, {})).touches.index("agent h1.stop")
    chaos = await resized(world, made.id, {stop: Fault.REFUSED})
    [run] = [one for one in await world.cloud.journal.find(RunFilter()) if one.saga == "resize"]
    assert (run.version, run.state) == (1, "undone")
    assert [entry.outcome for entry in run.log if entry.step == "stop_on_source"] == ["refused", "done"]
    assert {"volumes.connect", "volumes.complete"} <= {*chaos.touches[stop:]}
    server = await lookup.find(world.cloud, made.id)
    assert (server.volumes, server.vm_state) == (before, "active")
    await Invariants(world).check()
    await world.close()


async def test_a_volume_that_is_given_up_after_the_way_back() -> None:
    """Seed 55 of 15 steps: a move was rolled back while the volume service was asked to let go of the source's."""
    await given_up_late()


async def given_up_late() -> None:
    world = await World.build(("h1", "h2"), rules=Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0), equipped=True)
    engine, made = world.engine("one"), with_devices(world.new_server("s"))
    await boot_server(world, engine, made, "h1")
    late = await resized(await world.copy(), made.id, {})
    number = late.touches.index(DETACH)
    again = (await resized(await world.copy(), made.id, {number: Fault.LATE})).touches.index(DETACH, number + 1)
    late = await resized(world, made.id, {number: Fault.LATE, again: Fault.REFUSED})
    assert [fired.split(",")[1].strip() for fired in late.fired] == [DETACH, DETACH]
    for call in late.late:
        await call()
    [run] = [one for one in await world.cloud.journal.find(RunFilter()) if one.saga == "resize"]
    assert run.state == "undone"
    await Invariants(world).check()
    await world.close()


DETACH = "volumes.detach"


async def resized(world: World, server_id: ServerId, plan: Plan) -> Chaos:
    """Resize a server to LARGE while this goes wrong."""
    chaos = Chaos(plan)
    engine = world.engine("two", chaos.wrap(world.cloud))
    server = await lookup.find(world.cloud, server_id)
    await requests.resize(world.cloud, engine, world.requester(), server, LARGE)
    await world.settle(engine)
    return chaos


async def test_an_image_that_is_registered_after_its_snapshot_came_to_nothing() -> None:
    """Seed 229 of 15 steps: what the image service was asked for too late stayed, of no size and nobody's."""
    await registered_late()


async def registered_late() -> None:
    world = await World.build()
    engine, made = world.engine("one"), world.new_server("s")
    await boot_server(world, engine, made, "h1")
    number = (await taken(await world.copy(), made.id, {})).touches.index(REGISTER)
    again = (await taken(await world.copy(), made.id, {number: Fault.LATE})).touches.index(REGISTER, number + 1)
    late = await taken(world, made.id, {number: Fault.LATE, again: Fault.REFUSED})
    for call in late.late:
        await call()
    assert len(world.images.ids()) == 2, "it came late"
    await world.cloud.clock.sleep(LATEST_S)
    await reconcile_slowly(world.cloud, engine)
    assert world.images.ids() == [IMAGE]
    await world.close()


REGISTER = "images.create"


async def taken(world: World, server_id: ServerId, plan: Plan) -> Chaos:
    """Take a snapshot of a server under this fault."""
    chaos = Chaos(plan)
    cloud = chaos.wrap(world.cloud)
    engine = world.engine("two", cloud)
    await create_image.accept(
        cloud, engine, world.requester(), await lookup.find(world.cloud, server_id), "snapshot", {}
    )
    await world.settle(engine)
    return chaos


async def test_what_is_made_for_a_server_after_it_was_deleted() -> None:
    """Seed 1035 of 20 steps: a server was deleted before the network heard of its creation for the second time."""
    await made_late()


async def made_late() -> None:
    world = await World.build(equipped=True)
    engine, made = world.engine("one"), with_devices(world.new_server("s"))
    await boot_server(world, engine, made, "h1")
    kept = (await lookup.find(world.cloud, made.id)).volumes[0].volume_id
    await delete.accept(world.cloud, engine, world.requester(), await lookup.find(world.cloud, made.id))
    await world.settle(engine)
    await make_again(world, made.id)
    left = " ".join(await at_rest.problems(world))
    assert all(what in left for what in ("port 6666", "was made for", "is attached to")), left
    await world.cloud.clock.sleep(LATEST_S)
    await reconcile_slowly(world.cloud, engine)
    assert await at_rest.problems(world) == []
    assert world.remains.volumes.ids() == [kept]
    await world.close()


async def make_again(world: World, server: ServerId) -> None:
    """Make all that a creation asks of networks and volumes arrive once more."""
    [run] = await world.cloud.journal.find(RunFilter(subject=server, sagas=("create",)))
    for line in (ports.make_ports, volumes.make_volumes, volumes.reserve_volumes):
        with suppress(Superseded, Refused):
            await line(run, world.cloud)
