"""The lock of a parked server: returned to its move if the owner is proved, otherwise left."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.stories import breaking
from tests.stories.breaking import Scene, run
from tests.stories.test_harmless_repair import UNKNOWN, changed, left
from tests.stories.test_proof_sees import its_lock_is_lost, park
from tests.stories.test_repair import repair_all
from whimbrel.adapters.sql.tables.cell import servers as records
from whimbrel.domain.errors import Conflict
from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.proof import prove
from whimbrel.repair.service import repair, survey
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import Invariants, books

Act = Callable[[Scene], Awaitable[None]]


async def lock_by(scene: Scene, holder: str | None) -> None:
    of_it = records.c.id == scene.plain.id
    await run(scene, "cell_c1", sa.update(records).where(of_it).values(locked_by_run=holder))


async def a_run_that_is_over_has_its_lock(scene: Scene) -> None:
    [over] = await scene.world.cloud.journal.find(RunFilter(subject=scene.plain.id, limit=1))
    await park(scene, scene.plain)
    await lock_by(scene, over.id)


async def now(scene: Scene) -> Server:
    return await lookup.find(scene.world.cloud, scene.plain.id)


@pytest.mark.parametrize("verdict", [requests.confirm, requests.revert], ids=lambda act: act.__name__)
@pytest.mark.parametrize("act", [its_lock_is_lost, a_run_that_is_over_has_its_lock], ids=lambda act: act.__name__)
async def test_who_waits_has_its_lock_again_and_takes_its_verdict(
    scene: Scene, act: Act, verdict: Callable[..., Awaitable[None]]
) -> None:
    world = scene.world
    await act(scene)
    proof, findings = await survey(world.cloud)
    assert {one.kind for one in proof.violations} == {"lost_lock"}
    [[action]] = [one.plan.actions for one in findings]
    assert action.kind == "give_lock"
    await repair_all(scene, findings)
    proof = await prove(world.cloud)
    assert proof.holds, proof.violations
    engine = world.engine("verdict")
    await verdict(world.cloud, engine, world.requester(), await now(scene))
    await world.settle(engine)
    server = await now(scene)
    assert (server.vm_state, server.host) == ("active", "h3" if verdict is requests.confirm else "h2")
    assert (await prove(world.cloud)).holds
    await Invariants(world).check()


async def its_lock_is_held(scene: Scene) -> None:
    await park(scene, scene.plain)


@pytest.mark.parametrize("verdict", [requests.confirm, requests.revert], ids=lambda act: act.__name__)
@pytest.mark.parametrize(
    "act", [its_lock_is_held, its_lock_is_lost, a_run_that_is_over_has_its_lock], ids=lambda act: act.__name__
)
async def test_only_a_move_with_its_lock_goes_on_where_its_verdict_is_given(
    scene: Scene, act: Act, verdict: Callable[..., Awaitable[None]]
) -> None:
    world, taken = scene.world, list[Run]()
    engine = world.engine("api", adopt=lambda run: bool(taken.append(run)) or True)
    await act(scene)
    found = await lookup.record(world.cloud, scene.plain.id)
    await verdict(world.cloud, engine, world.requester(), found.server, found.locked_by)
    move = await world.cloud.journal.open_run(scene.plain.id)
    assert move
    assert taken == ([move] if act is its_lock_is_held else [])
    await world.settle(world.engine("other"), rounds=2) if taken else await _is_stopped(scene, move.id)
    await Invariants(world).check()


async def _is_stopped(scene: Scene, move: RunId) -> None:
    """Check that a conductor stops this run at once."""
    world = scene.world
    other = world.engine("other")
    [run] = await world.cloud.journal.take(other.name, world.cloud.clock.now(), other.lease_s, 10)
    assert run.id == move
    await other.drive(run)
    assert "does not hold the lock" in str((await world.cloud.journal.get(move)).problem)


async def test_a_repair_that_is_rolled_back_leaves_the_lock_as_it_was(scene: Scene) -> None:
    """And while it is in progress no verdict is taken."""
    world = scene.world
    engine = world.engine("repair", adopt=lambda run: True)  # and does not drive it
    await its_lock_is_lost(scene)
    before = await books(world)
    mending, _ = await repair(world.cloud, engine, world.requester(), scene.plain.id)
    with pytest.raises(Conflict):
        await requests.confirm(world.cloud, engine, world.requester(), await now(scene))
    other = world.engine("other")
    await requests.turn_back(world.cloud, other, mending.id)
    await world.settle(other)
    assert await books(world) == before
    assert {one.kind for one in (await prove(world.cloud)).violations} == {"lost_lock"}


# Beside something that is left


BESIDE: dict[Act, tuple[Act, str]] = {
    breaking.locked: (breaking.no_guest, "missing_guest"),
    breaking.listed_elsewhere: (breaking.host_in_another_zone, "zone_differs"),
}


@pytest.mark.parametrize("act", BESIDE, ids=lambda act: act.__name__)
async def test_what_is_repaired_by_taking_the_lock_is_repaired_beside_what_is_left(scene: Scene, act: Act) -> None:
    """As after a restore of all databases, of a server that was shelved after the backup."""
    also, kind = BESIDE[act]
    await act(scene)
    await also(scene)
    [finding] = (await survey(scene.world.cloud))[1]
    assert finding.plan.left
    await repair_all(scene, [finding])
    proof = await prove(scene.world.cloud)
    assert {one.kind for one in proof.violations} == {kind}, proof.violations
    [repaired] = await scene.world.cloud.journal.find(RunFilter(sagas=("repair",)))
    assert repaired.state == "done"


# What is left


async def an_unknown_run_has_its_lock(scene: Scene) -> None:
    await park(scene, scene.plain)
    await lock_by(scene, UNKNOWN)


async def its_record_says_another_host(scene: Scene) -> None:
    await its_lock_is_lost(scene)
    await changed(scene, scene.plain.id, host="h1")


async def its_record_is_of_another_slot(scene: Scene) -> None:
    await its_lock_is_lost(scene)
    await changed(scene, scene.plain.id, slot="by-hand")


async def its_record_waits_for_nothing(scene: Scene) -> None:
    await its_lock_is_lost(scene)
    await changed(scene, scene.plain.id, vm_state="active")


async def its_record_has_another_flavor(scene: Scene) -> None:
    await its_lock_is_lost(scene)
    await changed(scene, scene.plain.id, flavor=msgspec.to_builtins(replace(scene.plain.flavor, vcpus=3)))


DOUBTS: dict[Act, str] = {
    an_unknown_run_has_its_lock: f"run {UNKNOWN} locks it, which the journal does not have",
    its_record_says_another_host: "its record is not as that move left it (host h1",
    its_record_is_of_another_slot: "its record is not as that move left it (slot by-hand",
    its_record_waits_for_nothing: "its record is not as that move left it (vm_state active",
    its_record_has_another_flavor: "its record is not as that move left it (flavor",
}


@pytest.mark.parametrize("act", DOUBTS, ids=lambda act: act.__name__)
async def test_the_lock_is_left_where_the_record_may_be_newer_than_the_journal(scene: Scene, act: Act) -> None:
    await act(scene)
    before = await books(scene.world)
    words = await left(scene)
    assert any(DOUBTS[act] in one and "backup" in one and "before any verdict" in one for one in words), words
    assert await books(scene.world) == before
