"""Servers that are shelved: what a proof says if something of them is lost or left, and what the rounds clean up."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tests.stories.lifecycle import Lifecycle, Scenario, born, check, delete_and_see_nothing
from tests.stories.shelving import KEPT, ROOMY, SCENARIOS, shelved, unshelve
from tools.scenarios.incarnations import Result, release_late_effects
from whimbrel.domain.errors import Busy, Conflict
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.moves.steps.shelved_images import SHELVED_BY
from whimbrel.ports.cloud import Rules
from whimbrel.ports.services.images import Image
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.proof import prove
from whimbrel.servers import edit, lookup
from whimbrel.servers.lifecycle import shelve
from whimbrel.sim.checks.at_rest import problems
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, Plan
from whimbrel.sim.world.equipment import PORT, with_devices

RULES = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0)


async def made(rules: Rules = RULES) -> tuple[World, Server]:
    """Return a shelved server with ports, volumes and an ephemeral disk."""
    world = await World.build(rules=rules, equipped=True)
    server = with_devices(world.new_server("s", ROOMY))
    await born(world, server)
    await shelved(world, server)
    assert (await prove(world.cloud)).violations == ()
    assert await problems(world) == []
    return world, await lookup.find(world.cloud, server.id)


async def kinds(world: World) -> list[str]:
    return [str(violation.kind) for violation in (await prove(world.cloud)).violations]


async def image_lost(world: World, server: Server) -> None:
    await world.images.delete(server.shelved_images["ephemeral"])


async def image_empty(world: World, server: Server) -> None:
    image = await world.images.show(server.shelved_images["root"])
    await world.images.delete(image.id)
    await world.images.create(replace(image, status="queued"))


async def port_bound(world: World, server: Server) -> None:
    port = await world.cloud.network.port(PORT)
    await world.cloud.network.bind(port, HostName("h3"), {}, port.device_owner)


async def reserved_twice(world: World, server: Server) -> None:
    [device, *_] = server.volumes
    await world.cloud.volumes.reserve(server.id, device.volume_id, [device.attachment_id])


Act = Callable[[World, Server], Awaitable[None]]


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (image_lost, "lost_image"),
        (image_empty, "lost_image"),
        (port_bound, "port_elsewhere"),
        (reserved_twice, "stray_attachment"),
    ],
)
async def test_what_is_wrong_with_a_shelved_server_is_named(act: Act, kind: str) -> None:
    world, server = await made()
    await act(world, server)
    assert await kinds(world) == [kind]
    await world.close()


@pytest.mark.parametrize("act", [port_bound, reserved_twice])
async def test_what_came_late_for_an_offloaded_server_is_released(act: Act) -> None:
    """A network service that does not count a write without a change lets a stale binding pass."""
    world, server = await made()
    before = await books(world)
    await act(world, server)
    await release_late_effects(Result(world, {}, server, []))
    assert await books(world) == before
    await delete_and_see_nothing(world, server.id)
    await world.close()


async def test_an_image_that_is_left_is_reported_and_kept() -> None:
    """It may be the only disk of a server whose cell was restored."""
    world, server = await made()
    [run] = await world.cloud.journal.find(RunFilter(subject=server.id, sagas=("shelve",)))
    engine = world.engine("e")
    await unshelve(world.cloud, engine, world.requester(), server)
    await world.settle(engine)
    image_id = server.shelved_images["root"]
    left = Image(id=image_id, name="left", status="active", disk_format="qcow2", size_bytes=0, checksum=None,
                 properties={SHELVED_BY: run.id})  # fmt: skip
    await world.images.create(left)
    assert await kinds(world) == ["left_image"]
    [violation] = (await prove(world.cloud)).violations
    assert "not shelved any more" in violation.sentence
    assert image_id in world.images.ids()
    await world.close()


async def test_no_image_no_offload_and_the_guest_stays() -> None:
    world, server = await made(KEPT)
    await image_lost(world, server)
    engine = world.engine("e")
    await shelve.offload(world.cloud, engine, world.requester(), server)
    await world.settle(engine)
    now = await lookup.find(world.cloud, server.id)
    assert (now.vm_state, now.host, now.task_state) == ("shelved", server.host, None)
    await shelve.unshelve_in_place(world.cloud, engine, world.requester(), now)
    await world.settle(engine)
    assert (await lookup.find(world.cloud, server.id)).vm_state == "active"
    assert await kinds(world) == []
    await world.close()


async def test_no_image_no_unshelve() -> None:
    world, server = await made()
    await image_lost(world, server)
    before, engine = await books(world), world.engine("e")
    await unshelve(world.cloud, engine, world.requester(), server)
    await world.settle(engine)
    assert await books(world) == before
    [run] = await world.cloud.journal.find(RunFilter(subject=server.id, sagas=("unshelve",)))
    assert (run.state, run.turned) == ("undone", "refused")
    assert f"image {server.shelved_images['ephemeral']} of the server's ephemeral disk is not there" in str(run.message)
    await world.close()


[NOWHERE] = (scenario for scenario in SCENARIOS if scenario.name == "unshelve where no host starts it")


class AskedAgain(Lifecycle):
    """An unshelve that is asked for again after each touch from the unlock on, until it is over."""

    def __init__(self, scenario: Scenario, *plans: Plan) -> None:
        super().__init__(scenario, *plans)
        self.refusals = 0

    async def after_each(self, touch: str) -> None:
        await super().after_each(touch)
        has_unlocked = any(one.endswith("servers.unlock") for one in self.incarnations[0].touches)
        if has_unlocked and await self.has_begun():
            record = await lookup.find(self.world.cloud, self.server.id)
            assert record.task_state is None
            with pytest.raises(Busy):
                await unshelve(self.world.cloud, self.world.engine("other"), self.world.requester(), record)
            self.refusals += 1


@pytest.mark.parametrize("owed", ["volumes.detach", "network.unbind", "placement.release"])
async def test_none_takes_an_unlocked_server_before_its_run_is_over(owed: str) -> None:
    """The lock of a failed unshelve goes when nothing of the guest is left: volumes, ports and claim may go later."""
    undisturbed = Lifecycle(NOWHERE)
    await (await undisturbed.play()).world.close()
    last = max(number for number, touch in enumerate(undisturbed.acts) if touch.startswith(owed))
    trial = AskedAgain(NOWHERE, {last: Fault.UNANSWERED})
    ended = await trial.play()
    touches = trial.incarnations[0].touches
    unlocked = next(number for number, touch in enumerate(touches) if touch.endswith("servers.unlock"))
    assert owed in touches[unlocked:], "it was let go before the lock"
    assert trial.refusals >= 3
    assert await books(ended.world) == ended.before
    await check(ended, NOWHERE)


async def test_a_reset_of_the_state_keeps_what_it_is_restored_from() -> None:
    world, server = await made()
    await edit.reset_state(world.cloud, world.requester(), server, "active")
    now = await lookup.find(world.cloud, server.id)
    assert (now.vm_state, now.shelved_images) == ("error", server.shelved_images)
    with pytest.raises(Conflict):
        await unshelve(world.cloud, world.engine("e"), world.requester(), now)
    await delete_and_see_nothing(world, server.id)
    assert not set(server.shelved_images.values()) & set(world.images.ids())
    await world.close()
