"""What a server has and its record does not name is released only if its guest was read and does not use it."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.stories import breaking
from tests.stories.breaking import FREE_PORT, FREE_VOLUME, Scene, kept_for, make_guest, port_of
from tests.stories.choosing import chosen, may_come_late
from tests.stories.test_harmless_repair import changed, silence
from whimbrel.domain.errors import Unavailable, WorldError
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.proof import prove
from whimbrel.reconcilers.late_effects_round import LATEST_S, release_late_effects
from whimbrel.servers import lookup
from whimbrel.servers.cleanup.late_effects import clean_up
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.faults.chaos import Chaos, Crash, Fault, Plan, changes

Act = Callable[[Scene], Awaitable[None]]


async def look_after(scene: Scene) -> int:
    """Run the rounds that follow the last run of rich; return how often something was released."""
    world, engine, began = scene.world, scene.world.engine("afterwards"), 0
    for _ in range(3):
        await world.cloud.clock.sleep(LATEST_S)
        began += await release_late_effects(world.cloud, engine)
        await world.settle(engine)
    return began


async def kinds(scene: Scene) -> set[str]:
    return {one.kind for one in (await prove(scene.world.cloud)).violations}


async def came_late(scene: Scene) -> None:
    """Make a binding, a volume kept, one kept again, and a port taken for rich, all of runs that are over."""
    await scene.world.cloud.network.create_binding(scene.rich.nics[1].port_id, HostName("h3"), "normal", {})
    await kept_for("rich")(scene)
    await breaking.kept_again(scene)
    await port_of("rich")(scene)


async def misbound(scene: Scene) -> None:
    """Make two late calls of a run that is over bind a port on another host, and have it served there."""
    network, port = scene.world.cloud.network, scene.rich.nics[1].port_id
    await network.create_binding(port, HostName("h3"), "normal", {})
    await network.activate_binding(port, HostName("h3"))


async def volumes_forgotten(scene: Scene) -> None:
    """The record is of a time before they were attached."""
    await changed(scene, scene.rich.id, volumes=[])


async def ports_forgotten(scene: Scene) -> None:
    await changed(scene, scene.rich.id, nics=[])


async def volume_kept_only(scene: Scene) -> None:
    """Its guest has a volume that its record does not name, by an attachment that connects nothing."""
    device = scene.rich.volumes[0]
    await volumes_forgotten(scene)
    await scene.world.remains.volumes.detach(device.attachment_id)
    await scene.world.remains.volumes.reserve(scene.rich.id, device.volume_id, ())


async def connected_elsewhere(scene: Scene) -> None:
    """A volume is connected for it, from wherever."""
    volumes = scene.world.remains.volumes
    attachment = await volumes.reserve(scene.rich.id, FREE_VOLUME, ())
    await volumes.connect(attachment.id, {"host": "h3"})
    await volumes.complete(attachment.id)


async def port_serves_elsewhere(scene: Scene) -> None:
    network = scene.world.remains.network
    await port_of("rich")(scene)
    await network.bind(await network.port(FREE_PORT), HostName("h3"), {}, "compute:nova")


async def guest_elsewhere(scene: Scene) -> None:
    """The record is of a time before it was moved."""
    await came_late(scene)
    assert scene.rich.host
    assert scene.rich.slot
    await scene.world.hypervisors[scene.rich.host].destroy(GuestKey(scene.rich.id, scene.rich.slot))
    await make_guest(scene, scene.rich, "h3", "by-hand", runs=True)


async def served_with_its_guest(scene: Scene) -> None:
    """The record is of a time before it was moved, and its ports with it."""
    await guest_elsewhere(scene)
    await scene.world.cloud.network.activate_binding(scene.rich.nics[1].port_id, HostName("h3"))


async def misbound_without_a_way_back(scene: Scene) -> None:
    await misbound(scene)
    await scene.world.cloud.network.delete_bindings([scene.rich.nics[1].port_id], HostName("h1"))


async def guest_stopped(scene: Scene) -> None:
    """It is the source of a move, and its record is of a time before that."""
    await came_late(scene)
    assert scene.rich.host
    assert scene.rich.slot
    await scene.world.hypervisors[scene.rich.host].stop(GuestKey(scene.rich.id, scene.rich.slot), 0)


KEPT = (
    (volumes_forgotten, {"stray_attachment", "volumes_of_guest"}),
    (ports_forgotten, {"stray_port"}),
    (volume_kept_only, {"stray_attachment", "volumes_of_guest"}),
    (connected_elsewhere, {"stray_attachment"}),
    (port_serves_elsewhere, {"stray_port"}),
    (guest_elsewhere, {"stray_attachment", "stray_port", "stray_binding"}),
    (served_with_its_guest, {"stray_attachment", "stray_port", "port_elsewhere"}),
    (misbound_without_a_way_back, {"port_elsewhere"}),
    (guest_stopped, {"stray_attachment", "stray_port", "stray_binding"}),
)  # fmt: skip


@pytest.mark.parametrize(("act", "named"), KEPT, ids=lambda one: getattr(one, "__name__", ""))
async def test_what_a_guest_uses_or_may_use_is_not_released(scene: Scene, act: Act, named: set[str]) -> None:
    await act(scene)
    before = await books(scene.world)
    assert await look_after(scene) == 0
    assert await books(scene.world) == before
    assert named <= await kinds(scene)


async def test_a_port_that_a_guest_of_another_server_has_is_not_released(scene: Scene) -> None:
    """It says that it is plain's, and the guest of rich beside it has it."""
    world, plain = scene.world, scene.plain
    world.remains.network._change(scene.rich.nics[1].port_id, device_id=plain.id)
    await breaking.no_guest(scene)
    assert plain.slot
    await make_guest(scene, plain, "h1", plain.slot, runs=True)
    await changed(scene, plain.id, host="h1")
    record = await lookup.find(world.cloud, plain.id)
    assert not await clean_up(world.cloud, world.engine("e"), world.requester(), record)
    assert "stray_port" in await kinds(scene)


async def test_what_came_late_is_released(scene: Scene) -> None:
    before = await books(scene.world)
    await came_late(scene)
    assert await look_after(scene) == 1
    assert await kinds(scene) == set()
    assert sorted(before["attachments"]) == sorted((await books(scene.world))["attachments"])


async def test_a_port_that_calls_which_came_late_took_away_is_given_back(scene: Scene) -> None:
    before = await books(scene.world)
    await misbound(scene)
    assert "port_elsewhere" in await kinds(scene)
    assert await look_after(scene) == 1
    assert await kinds(scene) == set()
    assert await books(scene.world) == before


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.LOST_ANSWER, Fault.REFUSED], ids=lambda one: one.name)
async def test_a_port_is_given_back_whatever_comes_between(scene: Scene, fault: Fault) -> None:
    before = await books(scene.world)
    await misbound(scene)
    chooses = may_come_late if fault is Fault.REFUSED else changes
    for touch, name in chosen(await _tidied(await scene.copy(), {}), chooses):
        again = await scene.copy()
        await _tidied(again, {touch: fault})
        await look_after(again)
        assert await books(again.world) == before, f"{fault.name} at {name}"
        await again.world.close()


async def _tidied(scene: Scene, plan: Plan) -> list[str]:
    """Clean up rich under a plan of faults; return the touches."""
    world, chaos = scene.world, Chaos(plan)
    cloud = chaos.wrap(world.cloud)
    engine, record = world.engine("e", cloud), await lookup.find(world.cloud, scene.rich.id)
    with suppress(Crash, WorldError):
        assert await clean_up(cloud, engine, world.requester(), record)
        await world.settle(engine)
    return chaos.touches


async def test_a_server_that_was_found_clean_is_not_checked_again(scene: Scene) -> None:
    world, chaos = scene.world, Chaos({})
    cloud, engine = chaos.wrap(world.cloud), world.engine("afterwards")
    asked = []
    for _ in range(2):
        await cloud.clock.sleep(LATEST_S)
        assert await release_late_effects(cloud, engine) == 0
        asked.append(sum(touch.startswith("network.") for touch in chaos.touches))
    assert asked[0] == asked[1] > 0


async def test_a_server_whose_host_is_unreachable_is_checked_again(scene: Scene) -> None:
    """It is released once its host answers, within the time for which ended runs are checked."""
    world, engine = scene.world, scene.world.engine("afterwards")
    await came_late(scene)
    agents = world.cloud.cell(scene.rich.cell).agents._agents  # type: ignore[arg-type, attr-defined]
    agent = agents[HostName("h1")]
    silence(scene, "h1")
    await world.cloud.clock.sleep(LATEST_S)
    assert await release_late_effects(world.cloud, engine) == 0
    agents[HostName("h1")] = agent
    await world.cloud.clock.sleep(LATEST_S)
    assert await release_late_effects(world.cloud, engine) == 1


async def test_nothing_is_released_while_the_host_is_unreachable(scene: Scene) -> None:
    world = scene.world
    await came_late(scene)
    agents = world.cloud.cell(scene.rich.cell).agents._agents  # type: ignore[arg-type, attr-defined]
    agent = agents[HostName("h1")]
    silence(scene, "h1")
    before = await books(world)
    assert await look_after(scene) == 0
    with pytest.raises(Unavailable):
        await clean_up(world.cloud, world.engine("e"), world.requester(), await lookup.find(world.cloud, scene.rich.id))
    assert await books(world) == before
    agents[HostName("h1")] = agent
    assert await clean_up(
        world.cloud, world.engine("e"), world.requester(), await lookup.find(world.cloud, scene.rich.id)
    )


async def test_a_host_that_becomes_unreachable_under_it_has_it_undone_and_looked_after_again(scene: Scene) -> None:
    world, engine = scene.world, scene.world.engine("e")
    await came_late(scene)
    agents = world.cloud.cell(scene.rich.cell).agents._agents  # type: ignore[arg-type, attr-defined]
    agent = agents[HostName("h1")]
    assert await clean_up(world.cloud, engine, world.requester(), await lookup.find(world.cloud, scene.rich.id))
    silence(scene, "h1")
    before = await books(world)
    await world.settle(engine)
    [run] = await world.cloud.journal.find(RunFilter(subject=scene.rich.id, sagas=("tidy",)))
    assert run.state == "undone"
    after = await books(world)
    assert (after["ports"], after["attachments"]) == (before["ports"], before["attachments"])
    agents[HostName("h1")] = agent
    assert await look_after(scene) == 1
    assert await kinds(scene) == set()
