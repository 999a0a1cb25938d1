"""Two users at once: at every touch of one request, another one is sent."""

from dataclasses import dataclass
from dataclasses import replace as with_

import pytest
from msgspec.structs import replace

from tests.stories.image_books import images_are_whole, without_images
from tests.stories.lifecycle import (
    Ask,
    Books,
    Lifecycle,
    Meant,
    NotSo,
    Scenario,
    as_before,
    asked_for,
    confirmed,
    delete_and_see_nothing,
    gone,
    in_state,
    resized,
    running_on_its_target,
    stopped,
    the_run,
    waiting_for_a_verdict,
)
from tests.stories.rebuilding import OTHER_IMAGE, another_image, reimaged, same_image
from tests.stories.rebuilding import RUNNING as REBUILT
from tests.stories.shelving import (
    KEPT,
    bound,
    built_again,
    its_cell_full,
    offloaded,
    shelved,
    unshelve,
    unshelve_anywhere,
)
from tools.scenarios.incarnations import Result
from whimbrel.domain.errors import NotFound, WorldError
from whimbrel.domain.server import Server
from whimbrel.moves import live_requests, requests
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import edit, lookup
from whimbrel.servers.lifecycle import create, create_image, delete, power, shelve
from whimbrel.sim.checks.invariants import Violation, books
from whimbrel.sim.cloud.cloud import LARGE, SMALL
from whimbrel.sim.faults.chaos import changes
from whimbrel.sim.world.equipment import VOLUME

# What is asked for


async def create_it(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await create.accept(cloud, engine, requester, [server])


async def resize(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await requests.resize(cloud, engine, requester, server, LARGE if server.flavor == SMALL else SMALL)


async def migrate(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await requests.migrate(cloud, engine, requester, server, None)


async def migrate_live(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await live_requests.migrate_live(cloud, engine, requester, server, None)


async def migrate_live_anywhere(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await live_requests.migrate_live(cloud, engine, requester, server, None, leaves_cell=True)


async def reboot(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await power.reboot(cloud, engine, requester, server, hard=True)


async def take_a_snapshot(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await create_image.accept(cloud, engine, requester, server, "snapshot", {})


def over_at_once(*asks: Ask) -> Ask:
    """Ask for this, and have it over before the first one goes on: what he saw is not so any more."""

    async def ask(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
        for each in asks:
            request = replace(requester, request_id=f"req-{cloud.ids.uuid()}")
            await each(cloud, engine, request, await lookup.find(cloud, server.id))
            await whatever_is_due(cloud, engine, requester, server)

    return ask


async def whatever_is_due(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """A conductor comes along and finishes what others began."""
    for run in await cloud.journal.take(engine.name, cloud.clock.now(), engine.lease_s, 1):
        await engine.drive(run)


async def say_it_is_broken(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await edit.reset_state(cloud, requester, server, "error")


async def say_it_is_active(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await edit.reset_state(cloud, requester, server, "active")


async def delete_it(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """A delete is never refused, whatever is in progress: it is done at once or when that has ended."""
    server = await lookup.find(cloud, server.id)
    try:
        await delete.accept(cloud, engine, requester, server)
    except WorldError as refusal:
        raise AssertionError(f"a delete was refused: {refusal}") from refusal


# How it may end


async def reverted(result: Result) -> Books:
    """A resized server that is again as it was before it was resized."""
    run = await the_run(result, "resize")
    source, flavor = run.facts.source, run.facts.old_flavor
    old = replace(
        result.before["servers"][result.server.id],
        vm_state="active",
        host=source.host,
        zone=source.zone,
        slot=source.slot,
        flavor=flavor,
        launched_at=run.facts.launched_at,
    )
    return {
        **result.before,
        "servers": {result.server.id: old},
        "records": [(source.cell, result.server.id, "whole", None)],
        "claims": [(result.server.id, source.provider, tuple(sorted(flavor.resources().items())))],
        "guests": [
            (source.host, result.server.id, source.slot, "running", flavor.vcpus, flavor.memory_mib, True),
        ],
        "quota": {result.server.id: (flavor.vcpus, flavor.memory_mib)},
    }


async def moved_live(result: Result) -> Books:
    """A running server that runs at the target of its live migration, and nowhere else."""
    run = await the_run(result, "live_migrate")
    target = run.facts.target
    if target is None:
        raise NotSo("it has no target")
    [(server_id, was)] = result.before["servers"].items()
    [(_, _, _, *guest)] = result.before["guests"]
    return {
        **result.before,
        "servers": {server_id: replace(was, cell=target.cell, host=target.host, zone=target.zone, slot=run.id)},
        "records": [(target.cell, server_id, "whole", None)],
        "claims": [(server_id, target.provider, tuple(sorted(was.flavor.resources().items())))],
        "guests": [(target.host, server_id, run.id, *guest)],
    }


def but_said_to_be(vm_state: str, meant: Meant) -> Meant:
    """How it is meant to end, and an administrator has set the vm_state after that, or before it began."""

    async def said(result: Result) -> Books:
        found = await meant(result)
        return {**found, "servers": {id: replace(one, vm_state=vm_state) for id, one in found["servers"].items()}}

    return said


async def created_and_resized(result: Result) -> Books:
    return await waiting_for_a_verdict(with_(result, before=await running_on_its_target(result)))


async def rebuilt_and_resized(result: Result) -> Books:
    return await waiting_for_a_verdict(with_(result, before=await REBUILT(result)))


async def consistent(result: Result) -> Books:
    """What its record says is so: the guest, the claim, the quota. A move may wait for its verdict."""
    now = await books(result.world)
    if result.server.id not in now["servers"]:
        return await gone(result)
    server = now["servers"][result.server.id]
    assert server.task_state is None
    run = await result.world.cloud.journal.open_run(server.id)
    facts = run.facts if run else None
    was = facts.was if facts else server.vm_state
    here = (await result.world.cloud.cell(server.cell).hosts.get(server.host)).id
    claims = [(server.id, here, server.flavor)]
    guests = [(server.host, server.slot, {"active": "running", "stopped": "stopped"}[was], server.flavor)]
    if facts:
        assert server.vm_state == "resized"
        claims.append((run.id, facts.source.provider, facts.old_flavor))
        guests.append((facts.source.host, facts.source.slot, "stopped", facts.old_flavor))
    return {
        **now,
        "claims": sorted((who, at, tuple(sorted(what.resources().items()))) for who, at, what in claims),
        "guests": sorted((at, server.id, slot, p, what.vcpus, what.memory_mib, True) for at, slot, p, what in guests),
        "quota": {server.id: (server.flavor.vcpus, server.flavor.memory_mib)},
    }


PLACING = ("create", "live_migrate", "unshelve")


async def whole(result: Result) -> Books:
    """A server on a volume: where the last run that placed it put it, with all that it has, and of the image of its
    rebuild if that was done.
    """
    now, world = await books(result.world), result.world
    [(server_id, server)] = now["servers"].items()
    assert server != result.before["servers"][server_id], "one refused the other, and was refused"
    done = [run for run in await world.cloud.journal.find(RunFilter(subject=server_id)) if run.state == "done"]
    is_rebuilt = any(run.saga == "rebuild" for run in done)
    root = await world.remains.volumes.volume(VOLUME)
    assert (server.name == "renamed", root.image_metadata.get("image_id") == OTHER_IMAGE) == (is_rebuilt, is_rebuilt)
    assert (server.task_state, server.fault, len(server.volumes)) == (None, None, 2)
    volumes = sorted(one.volume_id for one in server.volumes)
    if server.vm_state == "shelved_offloaded":
        assert (server.host, server.slot, {one.host for one in server.volumes}) == (None, None, {""})
        free = [(port, who, owner, "", {}, 0) for port, who, owner, *_ in now["ports"]]
        nowhere: Books = {"claims": [], "guests": [], "ports": free}
        return {**now, **nowhere, "attachments": [(server_id, one, None, "reserved") for one in volumes]}
    placed = next(run for run in done if run.saga in PLACING)
    target, flavor = placed.facts.target, server.flavor
    slot = next(run.id for run in done if run.saga in (*PLACING, "rebuild"))
    assert (server.vm_state, server.cell, server.host, server.slot) == ("active", target.cell, target.host, slot)
    assert {one.host for one in server.volumes} == {target.host}
    return {
        **now,
        "records": [(target.cell, server_id, "whole", None)],
        "claims": sorted((server_id, at, tuple(sorted(what.items()))) for at, what in target.parts.items()),
        "guests": [(target.host, server_id, slot, "running", flavor.vcpus, flavor.memory_mib, True)],
        "ports": [bound(port, placed.facts.ports, target) for port in now["ports"]],
        "attachments": [(server_id, one, target.host, "attached") for one in volumes],
    }


RUNNING, OFF = in_state("active", "running"), in_state("stopped", "stopped")


@dataclass(frozen=True)
class Together:
    """A scenario, what somebody else asks for meanwhile, and how both may end."""

    scenario: Scenario
    name: str
    other: Ask
    ends: tuple[Meant, ...]
    only_one: tuple[str, ...] = ()  # of the runs of these sagas there is one

    def __str__(self) -> str:
        return f"{self.scenario.name}, {self.name}"


CREATE = Scenario("create", create_it, running_on_its_target, new=True)
RESIZE = Scenario("resize", resize, waiting_for_a_verdict)
CONFIRM = Scenario("confirm", requests.confirm, confirmed, (resized,))
REVERT = Scenario("revert", requests.revert, reverted, (resized,))
STOP = Scenario("stop", power.stop, OFF)
START = Scenario("start", power.start, RUNNING, (stopped,))
REBOOT = Scenario("reboot", reboot, RUNNING)
MIGRATE = Scenario("migrate", migrate, consistent)
SNAPSHOT = Scenario("snapshot", take_a_snapshot, as_before)
REBUILD = Scenario("rebuild", same_image, REBUILT)
LIVE = Scenario("live migration", migrate_live, moved_live)
LIVE_ACROSS = Scenario(
    "live migration to another cell", migrate_live_anywhere, moved_live, (its_cell_full,), two_cells=True
)
SHELVE = Scenario("shelve", shelve.shelve, offloaded)
OFFLOAD = Scenario("shelve_offload", shelve.offload, offloaded, (shelved,), rules=KEPT)
UNSHELVE = Scenario("unshelve", unshelve, built_again, (shelved,))
UNSHELVE_ACROSS = Scenario(
    "unshelve into another cell", unshelve_anywhere, built_again, (shelved, its_cell_full), two_cells=True
)
ON_VOLUME = (  # whose shelve offloads it, too
    Scenario("live migration of one on a volume", migrate_live, whole, (another_image,), devices=True, on_volume=True),
    Scenario("live migration of one on a volume to another cell", migrate_live_anywhere, whole,
             (another_image, its_cell_full), two_cells=True, devices=True, on_volume=True),
    Scenario("shelve of one on a volume", shelve.shelve, whole, (another_image,), devices=True, on_volume=True),
    Scenario("unshelve of one on a volume", unshelve, whole, (another_image, shelved), devices=True, on_volume=True),
    Scenario("unshelve of one on a volume into another cell", unshelve_anywhere, whole,
             (another_image, shelved, its_cell_full), two_cells=True, devices=True, on_volume=True),
)  # fmt: skip
DELETE = Scenario("delete", delete_it, gone)
DELETE_BUILDING = Scenario("delete of one that is built", delete_it, gone, (asked_for,), new=True)
DELETE_RESIZED = Scenario("delete of a resized one", delete_it, gone, (resized,))

WHOLE: dict[str, tuple[Ask, ...]] = {
    "a whole resize": (resize, requests.confirm),
    "a whole stop": (power.stop,),
    "a whole start": (power.start,),
    "a whole rebuild": (same_image,),
    "a whole delete": (delete_it,),
}

TOGETHER = (
    *(Together(scenario, "delete", delete_it, (gone,)) for scenario in (RESIZE, CONFIRM, REVERT)),
    *(Together(scenario, "delete", delete_it, (gone,)) for scenario in (STOP, START, REBOOT, SNAPSHOT, REBUILD)),
    *(
        Together(scenario, name, ask, (gone,))
        for scenario in (LIVE, LIVE_ACROSS, SHELVE, OFFLOAD, UNSHELVE, UNSHELVE_ACROSS)
        for name, ask in (("delete", delete_it), ("a whole delete", over_at_once(delete_it)))
    ),
    *(Together(LIVE, name, over_at_once(*asks), (consistent,)) for name, asks in WHOLE.items() if asks != (delete_it,)),
    Together(LIVE, "rebuild", same_image, (consistent,)),
    Together(SHELVE, "rebuild", same_image, (offloaded, REBUILT)),
    Together(OFFLOAD, "rebuild", same_image, (offloaded,)),
    Together(UNSHELVE, "rebuild", same_image, (built_again, consistent)),
    *(
        Together(scenario, name, ask, (whole,))
        for scenario in ON_VOLUME
        for name, ask in (("rebuild", reimaged), ("a whole rebuild", over_at_once(reimaged)))
    ),
    Together(CREATE, "delete", delete_it, (gone, running_on_its_target)),
    Together(CREATE, "resize", resize, (running_on_its_target, created_and_resized)),
    *(Together(DELETE, ask.__name__, ask, (gone,)) for ask in (resize, reboot, take_a_snapshot, same_image, delete_it)),
    *(Together(DELETE_RESIZED, ask.__name__, ask, (gone,)) for ask in (requests.confirm, requests.revert)),
    Together(DELETE_RESIZED, "a whole revert", over_at_once(requests.revert), (gone,)),
    Together(DELETE_BUILDING, "the end of its building", whatever_is_due, (gone,)),
    Together(DELETE, "a whole resize", over_at_once(resize, requests.confirm), (gone,)),
    Together(DELETE, "a whole resize without verdict", over_at_once(resize), (gone,)),
    Together(DELETE, "a whole stop", over_at_once(power.stop), (gone,)),
    *(
        Together(scenario, name, over_at_once(*asks), (consistent,))
        for scenario in (RESIZE, MIGRATE, STOP, START, REBOOT, SNAPSHOT, REBUILD)
        for name, asks in WHOLE.items()
    ),
    Together(RESIZE, "resize", resize, (waiting_for_a_verdict,), only_one=("resize",)),
    Together(CONFIRM, "revert", requests.revert, (confirmed, reverted)),
    Together(REVERT, "confirm", requests.confirm, (confirmed, reverted)),
    Together(STOP, "reboot", reboot, (OFF, RUNNING)),
    Together(SNAPSHOT, "stop", power.stop, (OFF, as_before)),
    Together(REBUILD, "resize", resize, (REBUILT, waiting_for_a_verdict, rebuilt_and_resized)),
    *(
        Together(scenario, f"reset to {state}", ask, (meant, *(but_said_to_be(it, end) for it in said for end in ends)))
        for state, ask, said in (
            ("error", say_it_is_broken, ("error",)),
            ("active", say_it_is_active, ("active", "error")),  # in error: one without a host
        )
        for scenario in (RESIZE, CONFIRM, REVERT, STOP, REBUILD, SNAPSHOT, LIVE, SHELVE, OFFLOAD, UNSHELVE)
        for meant in (scenario.meant,)
        for ends in [(meant, as_before)]
    ),
)


class Interrupted(Lifecycle):
    """A scenario in which somebody else asks for something right after a touch."""

    def __init__(self, together: Together, at: int) -> None:
        super().__init__(together.scenario)
        self._other = together.other
        self._at = at
        self.answers: list[WorldError | None] = []  # what the other one was told

    async def after_each(self, touch: str) -> None:
        await super().after_each(touch)
        if len(self.incarnations) == 1 and len(self.incarnations[0].touches) == self._at + 1 and not self.answers:
            self.answers.append(await self._ask())
            await self._invariants.check(f"{touch}, when somebody else had asked")

    async def _ask(self) -> WorldError | None:
        world = self.world
        try:
            server = await lookup.find(world.cloud, self.server.id)
            await self._other(world.cloud, world.engine("other"), world.requester(), server)
        except WorldError as answer:
            return answer
        return None


def worth_a_break(touches: list[str]) -> list[int]:
    """List the touches after which the world is another one, and looks after which it is not what was seen."""
    in_request = next(at for at, touch in enumerate(touches) if changes(touch))
    looks = ("journal.open_run", "journal.get")
    return [at for at, touch in enumerate(touches) if changes(touch) or at < in_request or touch in looks]


@pytest.mark.long
@pytest.mark.parametrize("together", TOGETHER, ids=str)
async def test_whenever_the_other_one_asks(together: Together) -> None:
    undisturbed = Lifecycle(together.scenario)
    alone = await undisturbed.play()
    assert await fits(alone, together.scenario.meant, await books(alone.world)), "it does not end as it is meant to"
    await alone.world.close()
    asked = 0
    for at in worth_a_break(undisturbed.acts):
        try:
            asked += await disturbed(together, at)
        except (AssertionError, Violation) as error:
            raise AssertionError(f"{together}, after {at} {undisturbed.acts[at]}: {error}") from error
    assert asked >= 4


async def disturbed(together: Together, at: int) -> bool:
    """Run it with a second request after one touch; return whether the request was possible there."""
    lifecycle = Interrupted(together, at)
    result = await lifecycle.play()
    if not lifecycle.answers:
        return False  # the touch was refused: the world is no other one
    after = await books(result.world)
    assert any([await fits(result, end, after) for end in together.ends]), f"{lifecycle.answers}: {after}"
    runs = await result.world.cloud.journal.find(RunFilter(subject=result.server.id))
    for saga in together.only_one:
        assert [run.saga for run in runs].count(saga) == 1
    await images_are_whole(result)
    await delete_and_see_nothing(result.world, result.server.id)
    await result.world.close()
    return True


async def fits(result: Result, end: Meant, after: Books) -> bool:
    try:
        return without_images(after) == without_images(await end(result))
    except (NotSo, NotFound):
        return False
