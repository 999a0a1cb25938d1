"""A record or the directory is older than the hosts: rewritten from the only complete guest, or left."""

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.stories import breaking
from tests.stories.breaking import Act, Break, Scene, run
from tests.stories.test_harmless_repair import left, silence
from tests.stories.test_repair import repair_all
from tests.stories.test_repair_ends import interrupted
from whimbrel.adapters.sql.tables.global_ import directory
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import CellName, HostName, Slot
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.proof import prove
from whimbrel.repair.service import survey
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import Invariants, books
from whimbrel.sim.cloud.cloud import LARGE

TWIN = replace(LARGE, flavor_id="twin", name="twin")


async def another_cell_is_named(scene: Scene) -> None:
    of_it = directory.c.server_id == scene.plain.id
    await run(scene, "global", sa.update(directory).where(of_it).values(cell="c2"))


async def waits_without_a_move(scene: Scene) -> None:
    """As after a restore of its cell to a time before the verdict."""
    record = await lookup.find(scene.world.cloud, scene.plain.id)
    assert record.cell
    await scene.world.cloud.cell(record.cell).servers.change(record, {"vm_state": "resized"})


async def guest_in_another_cell(scene: Scene) -> None:
    await breaking.no_guest(scene)
    await breaking.make_guest(scene, scene.plain, "h4", "by-hand", runs=True)


async def guest_of_another_size(scene: Scene) -> None:
    await breaking.no_guest(scene)
    await breaking.make_guest(scene, replace(scene.plain, flavor=LARGE), "h3", "by-hand", runs=False)


async def catalogue(scene: Scene, *flavors: Flavor) -> None:
    for flavor in flavors:
        await scene.world.cloud.flavors.create(flavor, 0.0)


async def larger_guest_of_one_flavor(scene: Scene) -> None:
    known = {flavor.flavor_id for flavor in await scene.world.cloud.flavors.all()}
    if LARGE.flavor_id not in known:
        await catalogue(scene, LARGE)
    await guest_of_another_size(scene)


async def entry_of_a_deleted_server(scene: Scene) -> None:
    """As after a restore of the global database to a time before the deletion."""
    values = {"deleted_at": None, "cell": "c1"}
    await run(scene, "global", sa.update(directory).where(directory.c.server_id == scene.gone.id).values(values))


def _older(name: str, act: Act, *names: str) -> Break:
    return Break(name, act, frozenset(names))


OLDER = (
    _older("the directory names another cell", another_cell_is_named, "no_record", "stray_record"),
    _older("a server waits for a verdict that was given", waits_without_a_move, "no_move"),
    _older("the only guest is in another cell", guest_in_another_cell, "missing_guest", "stray_guest"),
    _older("the only guest has another size", larger_guest_of_one_flavor, "missing_guest", "stray_guest"),
)


CLOSED = _older("the directory names a deleted server", entry_of_a_deleted_server, "no_record")


async def now(scene: Scene) -> Server:
    return await lookup.find(scene.world.cloud, scene.plain.id)


@pytest.mark.parametrize("broken", OLDER, ids=str)
async def test_a_record_is_written_as_its_only_whole_guest_is(scene: Scene, broken: Break) -> None:
    await broken.act(scene)
    proof, findings = await survey(scene.world.cloud)
    assert {one.kind for one in proof.violations} == broken.names
    assert not [words for one in findings for words in one.plan.left]
    guests = (await books(scene.world))["guests"]
    await repair_all(scene, findings)
    proof = await prove(scene.world.cloud)
    assert proof.holds, proof.violations
    assert (await books(scene.world))["guests"] == guests
    await Invariants(scene.world).check()


async def test_the_entry_of_a_deleted_server_is_marked_deleted(scene: Scene) -> None:
    before = await books(scene.world)
    await CLOSED.act(scene)
    proof, findings = await survey(scene.world.cloud)
    assert {one.kind for one in proof.violations} >= CLOSED.names
    await repair_all(scene, findings)
    proof = await prove(scene.world.cloud)
    assert proof.holds, proof.violations
    assert await books(scene.world) == before


async def test_the_record_says_cell_flavor_and_power_of_the_guest(scene: Scene) -> None:
    await larger_guest_of_one_flavor(scene)
    await repair_all(scene, (await survey(scene.world.cloud))[1])
    server = await now(scene)
    assert (server.host, server.slot, server.vm_state, server.flavor) == ("h3", "by-hand", "stopped", LARGE)


async def test_flavors_that_fit_alike_are_named_and_nothing_is_written(scene: Scene) -> None:
    await larger_guest_of_one_flavor(scene)
    await catalogue(scene, TWIN)
    words = await left(scene)
    assert any("fits large, twin" in one for one in words), words


async def test_of_two_whole_guests_a_person_chooses(scene: Scene) -> None:
    """And is told how: once one of them is gone the record follows the other."""
    await waits_without_a_move(scene)
    await breaking.guest("plain", "h3", runs=False)(scene)
    words = await left(scene)
    assert any("h2 (running" in one and "h3 (stopped" in one for one in words), words
    await breaking.no_guest(scene)
    await repair_all(scene, (await survey(scene.world.cloud))[1])
    assert (await prove(scene.world.cloud)).holds
    server = await now(scene)
    assert (server.host, server.vm_state) == ("h3", "stopped")


@pytest.mark.parametrize("broken", [OLDER[1], OLDER[2], OLDER[3]], ids=str)
async def test_nothing_is_written_while_a_host_is_unreachable(scene: Scene, broken: Break) -> None:
    await broken.act(scene)
    silence(scene, "h1")
    assert any("while host h1 does not answer" in one for one in await left(scene))


async def test_a_guest_that_is_not_whole_beside_it_is_destroyed(scene: Scene) -> None:
    """As the target of a move that was overtaken half way: what is left is the whole guest."""
    await waits_without_a_move(scene)
    await scene.world.hypervisors[HostName("h3")].reserve(breaking.spec_of(scene.plain, "by-hand"))
    await repair_all(scene, (await survey(scene.world.cloud))[1])
    proof = await prove(scene.world.cloud)
    assert proof.holds, proof.violations
    assert (await now(scene)).host == "h2"


@pytest.mark.parametrize("step", ["settle_record", "enter_cell", "erase_left"])
async def test_the_guest_goes_at_any_step_and_no_record_is_lost(scene: Scene, step: str) -> None:
    async def gone(scene: Scene) -> None:
        await scene.world.hypervisors[HostName("h4")].destroy(GuestKey(scene.plain.id, Slot("by-hand")))

    await guest_in_another_cell(scene)
    ended = await interrupted(scene, step, gone)
    assert ended.state == ("undone" if step == "settle_record" else "done")
    assert (await now(scene)).id == scene.plain.id


@pytest.mark.parametrize("step", ["settle_record", "enter_cell", "erase_left", "claim_due", "repaired"])
async def test_it_is_rolled_back_at_any_step_and_repaired_again(scene: Scene, step: str) -> None:
    async def stopped(scene: Scene) -> None:
        [open_run] = await scene.world.cloud.journal.find(RunFilter(subject=scene.plain.id, only_open=True))
        if step != "repaired":
            await requests.turn_back(scene.world.cloud, scene.world.engine("operator"), open_run.id)

    await guest_in_another_cell(scene)
    await interrupted(scene, step, stopped)
    await scene.world.settle(scene.world.engine("later"))
    for _ in range(2):
        await repair_all(scene, [one for one in (await survey(scene.world.cloud))[1] if one.plan.actions])
    proof = await prove(scene.world.cloud)
    assert proof.holds, proof.violations
    server = await now(scene)
    assert (server.cell, server.host) == (CellName("c2"), "h4")
    await Invariants(scene.world).check()
