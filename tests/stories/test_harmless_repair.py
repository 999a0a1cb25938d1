"""Repairs release, erase and destroy nothing that a guest uses, that was not checked, or that may be right."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.broken_ports import hold, provider
from tests.stories import breaking
from tests.stories.breaking import Scene, held_by, kept_for, run
from tests.stories.test_repair_unreachable_cells import ALL, C1, C2, without
from whimbrel.adapters.sql.tables.cell import pci_devices
from whimbrel.adapters.sql.tables.cell import servers as records
from whimbrel.adapters.sql.tables.global_ import directory, runs
from whimbrel.domain.errors import Conflict, Invalid
from whimbrel.domain.guest import GuestKey, Order
from whimbrel.domain.ids import CellName, HostName, RunId, ServerId
from whimbrel.domain.run import Run
from whimbrel.moves import requests
from whimbrel.moves.steps.disk import TRANSFER_IMAGE
from whimbrel.ports.services.images import Image
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.proof import Proof, prove, proving
from whimbrel.repair.service import repair, survey
from whimbrel.servers.cleanup.late_effects import clean_up_after_delete
from whimbrel.sim.checks.invariants import books

Act = Callable[[Scene], Awaitable[None]]
UNKNOWN = RunId("12121212-1212-4212-8212-121212121212")


async def left(scene: Scene) -> list[str]:
    """Return what is left, and check that there are no other actions."""
    _, findings = await survey(scene.world.cloud)
    assert [action.sentence for one in findings for action in one.plan.actions] == []
    return [words for one in findings for words in one.plan.left]


async def changed(scene: Scene, of: ServerId, **fields: Any) -> None:
    """Make the record of a server in c1 be another one, its columns too."""
    async with scene.world.remains.databases["cell_c1"].write() as tx:
        raw = (await tx.run(sa.select(records.c.record).where(records.c.id == of))).scalar()
        columns = {name: value for name, value in fields.items() if name in records.c}
        now = json.dumps(json.loads(raw) | fields).encode()
        await tx.run(sa.update(records).where(records.c.id == of).values(record=now, **columns))


def silence(scene: Scene, host: str) -> None:
    for cell in scene.world.cloud.cells.values():
        cell.agents._agents.pop(HostName(host), None)  # type: ignore[attr-defined]


# Moves


async def migrate(scene: Scene) -> Run:
    """Make plain wait for a verdict on h3."""
    world, engine = scene.world, scene.world.engine("e")
    await requests.migrate(world.cloud, engine, world.requester(), scene.plain, HostName("h3"))
    await world.settle(engine)
    [move] = await world.cloud.journal.find(RunFilter(subject=scene.plain.id, only_open=True))
    return move


async def test_the_claim_of_an_open_move_is_not_released(scene: Scene) -> None:
    world, move = scene.world, await migrate(scene)
    with pytest.raises(Invalid, match="Nothing is wrong"):
        await repair(world.cloud, world.engine("r"), world.requester(), ServerId(move.id))


async def test_a_move_that_begins_while_servers_are_judged_is_no_violation(scene: Scene) -> None:
    """Its claim is under its own id, which was no open run's when runs were read."""
    has_begun = False
    async for step in proving(scene.world.cloud):
        if not isinstance(step, Proof) and step.stage == "servers" and not has_begun:
            has_begun = True
            await migrate(scene)
    assert has_begun
    assert isinstance(step, Proof)
    assert step.holds, [one.sentence for one in step.violations]


async def journal_lost_a_move(scene: Scene) -> None:
    """Both of its guests are there; the stopped one is what a revert would start."""
    move = await migrate(scene)
    await run(scene, "global", sa.delete(runs).where(runs.c.id == move.id))


async def and_its_lock(scene: Scene) -> None:
    await journal_lost_a_move(scene)
    await run(scene, "cell_c1", sa.update(records).where(records.c.id == scene.plain.id).values(locked_by_run=None))


@pytest.mark.parametrize("act", [journal_lost_a_move, and_its_lock], ids=lambda act: act.__name__)
async def test_the_source_of_a_move_that_the_journal_has_lost_is_not_destroyed(scene: Scene, act: Act) -> None:
    await act(scene)
    before = await books(scene.world)
    words = await left(scene)
    assert any("restore the journal's row from a backup" in one.lower() for one in words)
    assert any("has no claim, so this may be its" in one for one in words)
    assert await books(scene.world) == before


async def test_what_a_stranger_holds_is_not_for_a_guest_whose_own_claim_is_missing(scene: Scene) -> None:
    world = scene.world
    await hold(world, scene.plain.id, {})
    await hold(world, breaking.STRANGER, {await provider(world, "h2"): {"VCPU": 1}})
    _, findings = await survey(world.cloud)
    assert {action.kind for one in findings for action in one.plan.actions} == {"claim_due", "release_claim"}


async def test_nothing_is_done_about_a_server_that_an_unknown_run_locks(scene: Scene) -> None:
    """It may have been on its way: which of its guests is to stay nobody can say."""
    await breaking.guest("plain", "h3", runs=False)(scene)
    of_it = records.c.id == scene.plain.id
    await run(scene, "cell_c1", sa.update(records).where(of_it).values(locked_by_run=UNKNOWN))
    words = await left(scene)
    assert all(f"run {UNKNOWN} locks it, which the journal does not have" in one for one in words)


# Records


async def directory_says(scene: Scene, **values: Any) -> None:
    await run(scene, "global", sa.update(directory).where(directory.c.server_id == scene.plain.id).values(**values))


async def copied_and_pointed_at(scene: Scene, host: str) -> None:
    """Make the directory point at a copy in c2; the guest is on h2, as the record of c1 says."""
    order = Order(RunId(scene.world.cloud.ids.uuid()), 1)
    copy = replace(scene.plain, host=HostName(host), cell=C2 if host == "h4" else C1)
    await scene.world.cloud.cell(C2).servers.insert(order, copy)
    await run(scene, "cell_c2", sa.update(records).values(locked_by_run=None))
    await directory_says(scene, cell=C2)


@pytest.mark.parametrize("host", ["h2", "h4"])
async def test_the_record_whose_guest_is_there_is_not_erased(scene: Scene, host: str) -> None:
    await copied_and_pointed_at(scene, host)
    assert await left(scene)
    with pytest.raises(Conflict, match=r"directory|record"):
        await repair(scene.world.cloud, scene.world.engine("r"), scene.world.requester(), scene.plain.id)


async def test_where_a_guest_is_as_each_record_says_neither_is_erased(scene: Scene) -> None:
    await breaking.a_copy(scene)
    assert scene.plain.slot
    await breaking.make_guest(scene, scene.plain, "h4", scene.plain.slot, runs=False)
    _, findings = await survey(scene.world.cloud)
    assert "erase_copy" not in [action.kind for one in findings for action in one.plan.actions]
    assert any("it is unknown which is right" in words for one in findings for words in one.plan.left)


async def test_a_record_that_says_another_cell_is_seen_and_nothing_is_done(scene: Scene) -> None:
    await copied_and_pointed_at(scene, "h2")
    await run(scene, "cell_c1", sa.delete(records).where(records.c.id == scene.plain.id))
    [words] = await left(scene)
    assert "correct the directory's row to the cell of its guest" in words


async def test_a_mark_of_deletion_without_a_deletion_is_no_proof(scene: Scene) -> None:
    await directory_says(scene, deleted_at=1.0)
    assert all("the journal has no deletion" in words for words in await left(scene))


async def test_nothing_is_tidied_after_a_deletion_that_there_was_not(scene: Scene) -> None:
    of_it = directory.c.server_id == scene.rich.id
    await run(scene, "global", sa.update(directory).where(of_it).values(deleted_at=1.0))
    before = await books(scene.world)
    assert not await clean_up_after_delete(scene.rich.id, scene.world.cloud)
    assert await books(scene.world) == before


async def test_a_server_that_the_journal_knows_as_deleted_is_not_entered_again(scene: Scene) -> None:
    await breaking.no_entry(scene)
    ended = sa.update(runs).where(runs.c.saga == "delete").values(subject=scene.rich.id)
    await run(scene, "global", ended)
    [words] = await left(scene)
    assert "the journal has its deletion" in words


# What guests use


@pytest.mark.parametrize("what", ["volumes", "nics"])
async def test_what_its_guest_uses_and_its_record_forgot_is_not_released(scene: Scene, what: str) -> None:
    """The record is of a time before they were attached."""
    await changed(scene, scene.rich.id, **{what: []})
    assert any("the guest of server" in words for words in await left(scene))


async def test_what_a_guest_uses_that_nobody_knows_is_not_released(scene: Scene) -> None:
    await breaking.no_record(scene)
    await breaking.no_entry(scene)
    assert await left(scene)


@pytest.mark.parametrize("runs", [True, False], ids=["runs", "is stopped"])
async def test_a_port_that_was_given_to_another_server_is_not_released_while_its_guest_uses_it(
    scene: Scene, runs: bool
) -> None:
    network, port = scene.world.remains.network, scene.rich.nics[1].port_id
    network._change(port, device_id=scene.plain.id)
    if not runs:
        assert scene.rich.host
        assert scene.rich.slot
        await scene.world.hypervisors[scene.rich.host].stop(GuestKey(scene.rich.id, scene.rich.slot), 0)
    assert any(f"the guest of server {scene.rich.id} on h1 uses it" in words for words in await left(scene))


async def test_a_port_is_not_bound_to_where_its_guest_is_not(scene: Scene) -> None:
    await breaking.bound_elsewhere(scene)
    await breaking.destroyed(scene, scene.rich)
    assert any("its guest is not where its record says" in words for words in await left(scene))


async def test_a_device_is_not_released_while_the_guest_is_left_that_has_it(scene: Scene) -> None:
    await breaking.switched_off_and_started_elsewhere(scene)
    await breaking.device_held(scene)
    assert any("the guest that has it still exists" in words for words in await left(scene))


async def test_what_is_held_for_a_server_that_was_made_and_never_deleted_is_not_released(scene: Scene) -> None:
    """Both of its rows are lost, and its guest too."""
    await breaking.no_record(scene)
    await breaking.no_entry(scene)
    await breaking.destroyed(scene, scene.rich)
    assert all("the journal has its creation" in words for words in await left(scene))


async def test_a_repair_makes_nobodys_id_no_server_of_ours(scene: Scene) -> None:
    """A port of another service has the id under which something was leaked, and let go."""
    world, engine = scene.world, scene.world.engine("r")
    await held_by("stranger")(scene)
    await breaking.port_of_another_service(scene)
    await repair(world.cloud, engine, world.requester(), breaking.STRANGER)
    await world.settle(engine)
    proof = await prove(world.cloud)
    assert proof.holds, proof.violations


# What could not be seen


async def claim_of_gone(scene: Scene) -> None:
    await held_by("gone")(scene)


async def port_of_gone(scene: Scene) -> None:
    await breaking.port_of("gone")(scene)


async def volume_of_gone(scene: Scene) -> None:
    await kept_for("gone")(scene)


async def claim_elsewhere(scene: Scene) -> None:
    await breaking.held_of_two_hosts(scene)


async def guest_lost(scene: Scene) -> None:
    await breaking.no_guest(scene)


async def guest_moved(scene: Scene) -> None:
    await breaking.no_guest(scene)
    await breaking.make_guest(scene, scene.plain, "h1", "by-hand", runs=True)


async def device_of_plain(scene: Scene) -> None:
    await breaking.device_held(scene)


NOT_CHECKED = (
    claim_of_gone, port_of_gone, volume_of_gone, claim_elsewhere, guest_lost, guest_moved, device_of_plain,
)  # fmt: skip


@pytest.mark.parametrize("act", NOT_CHECKED, ids=lambda act: act.__name__)
async def test_what_a_guest_on_an_unreachable_host_may_use_waits_for_that_host(scene: Scene, act: Act) -> None:
    await act(scene)
    there = (await prove(scene.world.cloud)).violations
    silence(scene, "h3")
    words = await left(scene)
    assert len(words) == len(there)
    assert any("unknown while host h3 does not answer" in each for each in words)


async def test_a_server_that_the_directory_lost_is_not_said_to_be_deleted_while_its_host_is_unreachable(
    scene: Scene,
) -> None:
    await breaking.no_entry(scene)
    silence(scene, "h1")
    [words] = await left(scene)
    assert words.endswith("unknown while host h1 does not answer")


async def test_nothing_of_a_server_that_the_directory_lost_is_leaked_while_its_cell_is_away(scene: Scene) -> None:
    await breaking.no_entry(scene)
    proof, findings = await survey(without(scene.world.cloud, CellName(C1), *ALL))
    assert (proof.violations, findings) == ((), [])


# Images and devices


@pytest.mark.parametrize("mark", ["of a run", "no uuid", "of nothing"])
@pytest.mark.parametrize("status", ["active", "queued"])
async def test_an_image_that_a_user_made_is_his(scene: Scene, mark: str, status: str) -> None:
    """Anybody may give an image of his any property."""
    world = scene.world
    [first] = await world.cloud.journal.find(RunFilter(subject=scene.plain.id, limit=1))
    value = {"of a run": first.id, "of nothing": UNKNOWN}.get(mark, mark)
    image = Image(id=world.cloud.ids.uuid(), name="mine", status=status, disk_format="raw", size_bytes=1,
                  checksum=None, properties={TRANSFER_IMAGE: value}, owner="a-user")  # fmt: skip
    await world.cloud.images.create(image)
    assert (await prove(world.cloud)).holds


async def test_a_device_of_a_host_that_is_no_more_does_not_end_the_survey(scene: Scene) -> None:
    device = {"host": "gone", "address": "0000:99:00.0", "vendor_id": "10de", "product_id": "1db6"}
    held = {"server_id": scene.plain.id, "slot": "by-hand", "request": "x", "is_withdrawn": False}
    await run(scene, "cell_c1", sa.insert(pci_devices).values(**device, **held))
    [words] = await left(scene)
    assert "gone is not a host" in words
