"""The world changes during a repair: it does no harm and ends, and no server stays locked."""

from collections.abc import Awaitable, Callable
from typing import Any

import sqlalchemy as sa

from tests.broken_ports import held, provider
from tests.stories import breaking
from tests.stories.breaking import Scene, run
from whimbrel.adapters.sql.tables.cell import servers as records
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.domain.run import Run
from whimbrel.moves import requests
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.proof import prove
from whimbrel.repair.service import repair
from whimbrel.restore import restore
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.cloud.cloud import CELL, IMAGE

Act = Callable[[Scene], Awaitable[None]]


async def interrupted(scene: Scene, step: str, act: Act, subject: ServerId | None = None) -> Run:
    """Repair plain up to this step; then something happens, and the repair continues. Return how it ends."""
    world = scene.world
    engine = world.engine("r", adopt=lambda run: True)  # only this test drives it
    begun, _ = await repair(world.cloud, engine, world.requester(), subject or scene.plain.id)
    now = await world.cloud.journal.get(begun.id)
    while now.at != step:
        now = await engine._step(now)
    await act(scene)
    await engine.drive(now)
    return await world.cloud.journal.get(begun.id)


async def record_gone(scene: Scene) -> None:
    await run(scene, "cell_c1", sa.delete(records).where(records.c.id == scene.plain.id))


async def test_its_record_is_taken_away(scene: Scene) -> None:
    await breaking.a_copy(scene)
    assert (await interrupted(scene, "erase_copies", record_gone)).state == "undone"


async def test_its_record_is_taken_away_when_its_claim_was_changed(scene: Scene) -> None:
    await breaking.held_of_two_hosts(scene)
    ended = await interrupted(scene, "repaired", record_gone)
    assert (ended.state, ended.debts) == ("done", ())


async def test_the_only_guest_goes_before_it_is_adopted(scene: Scene) -> None:
    """The claim goes back with the record."""

    async def gone(scene: Scene) -> None:
        await scene.world.hypervisors[HostName("h3")].destroy(GuestKey(scene.plain.id, Slot("by-hand")))

    before = await held(scene.world, scene.plain.id)
    await breaking.moved_by_hand(scene)
    ended = await interrupted(scene, "adopt_guest", gone)
    assert (ended.state, await held(scene.world, scene.plain.id)) == ("undone", before)


async def test_the_record_goes_before_its_guest_is_adopted(scene: Scene) -> None:
    await breaking.moved_by_hand(scene)
    ended = await interrupted(scene, "adopt_guest", record_gone)
    assert (ended.state, ended.debts) == ("undone", ())


async def test_it_is_stopped_when_the_guest_was_adopted(scene: Scene) -> None:
    """The claim stays where the guest is, and the record says so."""

    async def stopped(scene: Scene) -> None:
        [open_run] = await scene.world.cloud.journal.find(RunFilter(subject=scene.plain.id, only_open=True))
        await requests.turn_back(scene.world.cloud, scene.world.engine("operator"), open_run.id)

    await breaking.moved_by_hand(scene)
    await breaking.port_of("plain")(scene)  # so that there is something left to do
    await interrupted(scene, "let_go_ports", stopped)
    await scene.world.settle(scene.world.engine("later"))
    now = await lookup.find(scene.world.cloud, scene.plain.id)
    assert (now.host, now.task_state) == ("h3", None)
    assert list(await held(scene.world, scene.plain.id)) == [await provider(scene.world, "h3")]


async def test_the_guest_that_stands_as_recorded_is_stopped(scene: Scene) -> None:
    """Nothing is destroyed, as nothing is proved any more."""
    await breaking.guest("plain", "h3", runs=False)(scene)
    ended = await interrupted(scene, "destroy_guests", breaking.switched_off)
    guests = (await books(scene.world))["guests"]
    assert (ended.state, len([one for one in guests if scene.plain.id in str(one)])) == ("undone", 2)
    assert (await lookup.find(scene.world.cloud, scene.plain.id)).task_state is None


async def test_a_host_becomes_unreachable_on_which_it_may_be_in_use(scene: Scene) -> None:
    async def unreachable(scene: Scene) -> None:
        agents: Any = scene.world.cloud.cells[CELL].agents
        agents._agents.pop(HostName("h3"))

    await breaking.device_held(scene)
    ended = await interrupted(scene, "look_again", unreachable)
    assert ended.state == "undone"
    assert "unknown while host h3 does not answer" in str(ended.message)


async def test_a_guest_appears_that_nobody_agreed_to_destroy(scene: Scene) -> None:
    """What it may use is not let go under it."""
    await breaking.port_of("gone")(scene)
    appears = breaking.guest("gone", "h3", runs=True)
    ended = await interrupted(scene, "look_again", appears, scene.gone.id)
    assert ended.state == "undone"
    assert [port.id for port in await scene.world.cloud.network.ports_of([scene.gone.id])] == [breaking.FREE_PORT]


async def test_the_file_of_an_image_comes_after_the_look(scene: Scene) -> None:
    images = scene.world.cloud.images
    await breaking.snapshot_left(scene)
    [left] = [one for one in (await books(scene.world))["images"] if one != IMAGE]

    async def written(_: Scene) -> None:
        async def file() -> Any:
            yield b"disk"

        await images.write(left, file())

    await interrupted(scene, "delete_images", written)
    assert (await images.show(left)).status == "active"


async def test_a_restore_does_not_end_before_a_repair(scene: Scene) -> None:
    """Seed 429 of 40 steps, each with a restore: the proof leaves out a server that is being repaired."""
    world, cloud = scene.world, scene.world.cloud
    [over] = await cloud.journal.find(RunFilter(subject=scene.plain.id, limit=1))
    locked = sa.update(records).where(records.c.id == scene.plain.id).values(locked_by_run=over.id)
    await run(scene, "cell_c1", locked)
    await restore.begin(cloud, "a test")
    begun, _ = await repair(cloud, world.engine("api", adopt=lambda run: True), world.requester(), scene.plain.id)
    assert (await prove(cloud)).holds
    unsettled = await restore.end(cloud, SAGAS)
    assert unsettled
    assert [begun.id in reason for reason in unsettled.reasons] == [True]
    engine = world.engine("other")
    await requests.turn_back(cloud, engine, begun.id)
    await world.settle(engine)
    unsettled = await restore.end(cloud, SAGAS)
    assert unsettled
    assert [f"is locked by run {over.id}" in reason for reason in unsettled.reasons] == [True]
    await repair(cloud, engine, world.requester(), scene.plain.id)
    await world.settle(engine)
    assert await restore.end(cloud, SAGAS) is None
    assert (await prove(cloud)).holds
