"""Moves on their way back to a host that never returns: the server stays where a guest of it is, whatever dies."""

from dataclasses import replace as with_fields
from typing import Any

import pytest
from msgspec.structs import replace

from tests.booting import boot_server
from tests.stories.forgetting import DEAD, RULES, Bus, declare_dead, die, power_on, return_to_service, some_time
from tests.stories.mortal import BEFORE_OR_AFTER, Killed, Mortal, at_each_write
from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
from whimbrel.domain.errors import Conflict, Unavailable
from whimbrel.domain.guest import Guest, GuestKey, Order
from whimbrel.domain.ids import CellName, ConsumerId, RunId
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.domain.run import LogEntry, Run
from whimbrel.domain.server import Server
from whimbrel.history.state_at import states_during
from whimbrel.hosts.forgetting import forget, owes_undos
from whimbrel.hosts.lost_sources import give_up_source
from whimbrel.moves import evacuation_requests, requests
from whimbrel.moves.facts import key_at, moves_of, target_of
from whimbrel.notifications.occurrences import occurrences
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.proof import prove
from whimbrel.restore import restore
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import power, rebuild, rescue, shelve
from whimbrel.sim.cloud.cloud import LARGE, SMALL, World
from whimbrel.sim.world.equipment import with_devices

CELLS = {"c1": ("h1",), "c2": ("h2", "h3")}
VARIANTS = pytest.mark.parametrize("variant", ["plain", "devices", "crosses"])


async def reverting(
    variant: str, *, after: str = "", copies: dict[str, SqliteDatabase] | None = None
) -> tuple[World, Run]:
    """Return a move whose revert waits for its dead source, which died before it or after the undo of this step.

    copies: is given Placement's database as it is before the move.
    """
    cells = CELLS if variant == "crosses" else None
    world = await World.build(rules=RULES, cells=cells, equipped=variant == "devices")
    server: Any = world.new_server("s", SMALL)
    server = with_devices(server) if variant == "devices" else server
    setup = world.engine("setup")
    await boot_server(world, setup, server, DEAD)
    if copies is not None:
        copies["placement"] = world.remains.databases["placement"].copy()
    server = await lookup.find(world.cloud, server.id)
    await requests.resize(world.cloud, setup, world.requester(), server, LARGE, leaves_cell=variant == "crosses")
    await world.settle(setup)

    def cut_off(run: Run, entry: LogEntry) -> None:
        if (entry.step, entry.way) == (after, "undo"):
            world.disconnect(DEAD)

    if not after:
        await die(world)
    await requests.revert(world.cloud, setup, world.requester(), await lookup.find(world.cloud, server.id))
    await some_time(world, world.engine("d", took_step=cut_off))
    if after:
        await die(world)
    run = await world.cloud.journal.open_run(server.id)
    assert run
    assert (run.way, run.at) == ("back", "debts")
    return world, run


async def record_of(world: World, run: Run) -> Server:
    return await lookup.find(world.cloud, run.subject)


async def guest_of(world: World, record: Server) -> Guest:
    assert record.cell
    assert record.host
    assert record.slot
    guest = await world.cloud.agent(record.cell, record.host).look(GuestKey(record.id, record.slot))
    assert guest
    return guest


async def assert_stays_at_target(world: World, run: Run) -> None:
    """The server is confirmed: it runs where it is, with its new flavor, and nothing else of it is anywhere."""
    record = await record_of(world, run)
    assert record.host
    assert (record.host != DEAD, record.vm_state, record.task_state, record.flavor.flavor_id) == (
        True, "active", None, LARGE.flavor_id,
    )  # fmt: skip
    guest = await guest_of(world, record)
    assert (guest.power, guest.has_disk) == ("running", True)
    assert {device.host for device in record.volumes} <= {record.host}


@VARIANTS
async def test_a_server_stays_where_its_guest_is(variant: str) -> None:
    world, run = await reverting(variant)
    with pytest.raises(Conflict, match="no evidence"):
        await give_up_source(world.cloud, world.engine("e"), run.id)
    await declare_dead(world)
    with pytest.raises(Conflict, match=f"way back at debts, .* never does: whimbrel move give-up-source {run.id}"):
        await forget(world.cloud, Bus(), DEAD)
    await give_up_source(world.cloud, world.engine("e"), run.id)
    await some_time(world)
    assert (await record_of(world, run)).vm_state == "resized", "a host that is not forgotten may come back"
    assert not (found := (await prove(world.cloud)).violations), found
    with pytest.raises(Conflict, match="does not wait for this verdict"):
        await requests.revert(world.cloud, world.engine("e"), world.requester(), await record_of(world, run))
    await forget(world.cloud, Bus(), DEAD)
    await some_time(world)
    ended = await world.cloud.journal.get(run.id)
    assert (ended.state, ended.status, ended.problem) == ("done", "confirmed", None)
    await assert_stays_at_target(world, run)
    assert not (found := (await prove(world.cloud)).violations), found
    announced = [one.event.name for one in occurrences(ended, world.registry.of(ended))]
    assert [name for name in announced if name.startswith(("instance.resize_revert", "instance.resize_confirm"))] == [
        "instance.resize_revert.start", "instance.resize_confirm.start", "instance.resize_confirm.end",
    ]  # fmt: skip
    assert states_during(ended)[-1].host == (await record_of(world, run)).host
    await world.close()


@pytest.mark.parametrize("fields", [{"saga": "live_migrate"}, {"saga": "evacuate"}, {"at": "carry_disk"}], ids=str)
async def test_forget_names_the_command_only_where_it_is_accepted(fields: dict[str, Any]) -> None:
    world, run = await reverting("plain")
    assert owes_undos(run)
    assert not owes_undos(replace(run, **fields))
    await declare_dead(world)
    if "at" in fields:
        await world.cloud.journal.save(replace(run, epoch=run.epoch + 1, **fields), raised=True)
        with pytest.raises(Conflict, match=f"on its way back at carry_disk.*: whimbrel move show {run.id}\\.$"):
            await forget(world.cloud, Bus(), DEAD)
        with pytest.raises(Conflict, match="does not wait"):
            await give_up_source(world.cloud, world.engine("e"), run.id)
    await world.close()


class Busy:
    """A journal whose readers are slow: after each of the next reads a conductor tries the move again."""

    def __init__(self, world: World, tries: int) -> None:
        self._world = world
        self._inner = world.cloud.journal
        self.tries = tries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def get(self, run_id: RunId) -> Run:
        found = await self._inner.get(run_id)
        if self.tries:
            self.tries -= 1
            await some_time(self._world)
        return found


@pytest.mark.parametrize(("tries", "is_taken"), [(1, True), (4, True), (100, False)])
async def test_the_conductor_of_the_move_is_overtaken(tries: int, is_taken: bool) -> None:
    world, run = await reverting("plain")
    await declare_dead(world)
    busy: Any = with_fields(world.cloud, journal=Busy(world, tries))
    if is_taken:
        await give_up_source(busy, world.engine("e"), run.id)
        assert (await world.cloud.journal.get(run.id)).at == "destroy_on_source"
    else:
        with pytest.raises(Conflict, match="repeat the command"):
            await give_up_source(busy, world.engine("e"), run.id)
        assert (await world.cloud.journal.get(run.id)).way == "back"
    await world.close()


async def test_no_source_is_given_up_beside_a_process_of_an_older_release() -> None:
    world, run = await reverting("plain")
    await declare_dead(world)
    with pytest.raises(Conflict, match="being upgraded"):
        await give_up_source(world.cloud, world.engine("e", heeded_by_all=lambda fact: False), run.id)
    assert (await world.cloud.journal.get(run.id)).way == "back"
    await world.close()


async def test_a_source_is_given_up_by_a_process_that_has_begun_nothing_since_a_restore() -> None:
    """The hosts have adopted the new incarnation, and the process knows the one of its last run."""
    world, run = await reverting("plain")
    await declare_dead(world)
    await restore.begin(world.cloud, "a database was restored")
    with pytest.raises(Unavailable, match="are held"):
        await give_up_source(world.cloud, world.engine("e"), run.id)
    await restore.end(world.cloud, world.registry, force=True)
    await give_up_source(world.cloud, world.engine("e"), run.id)
    assert (await world.cloud.journal.get(run.id)).at == "destroy_on_source"
    await world.close()


@VARIANTS
async def test_a_server_without_a_guest_is_left_on_its_host(variant: str) -> None:
    """Its guest on the target is gone: the move goes back, and the server can be evacuated."""
    world, run = await reverting(variant, after="start_on_target")
    await declare_dead(world)
    await give_up_source(world.cloud, world.engine("e"), run.id)
    await some_time(world)
    ended = await world.cloud.journal.get(run.id)
    assert (ended.state, ended.status, ended.problem) == ("undone", "reverted", None), ended.message
    record = await record_of(world, run)
    assert (record.host, record.vm_state, record.task_state, record.flavor.flavor_id) == (
        DEAD, "active", None, SMALL.flavor_id,
    )  # fmt: skip
    if variant != "crosses":  # its cell has no other host
        await evacuation_requests.evacuate(world.cloud, world.engine("e"), world.requester(), record)
        await world.settle(world.engine("e"))
        assert (await record_of(world, run)).host not in (None, DEAD)
        await forget(world.cloud, Bus(), DEAD)
        assert not (found := (await prove(world.cloud)).violations), found
    await world.close()


async def test_what_may_be_half_a_copy_is_left() -> None:
    """A move that was turned back while its disk was copied: what is on the target may be all that is left."""
    world, run = await reverting("plain")
    await world.cloud.journal.save(replace(run, epoch=run.epoch + 1, turned="asked"), raised=True)
    await declare_dead(world)
    with pytest.raises(Conflict, match="may be all that is left"):
        await give_up_source(world.cloud, world.engine("e"), run.id)
    await some_time(world)
    after = await world.cloud.journal.get(run.id)
    assert (after.way, after.state) == ("back", "open")
    [move] = moves_of([run])
    target = target_of(move)
    guest = await world.cloud.agent(target.cell, target.host).look(key_at(move, target))
    assert guest
    assert guest.has_disk
    await world.close()


@VARIANTS
async def test_a_source_that_returns_is_gone_back_to(variant: str) -> None:
    """A process is killed before its decision is saved, and the host comes back after all."""
    assert await at_each_write(lambda number: returned_after(variant, number)) > 2


async def returned_after(variant: str, number: int) -> bool:
    world, run = await reverting(variant)
    await declare_dead(world)
    life, was_killed = [number], False
    try:
        await give_up_source(mortal(world, life, before=True), world.engine("victim"), run.id)
    except Killed:
        was_killed = True
    if was_killed and (await world.cloud.journal.get(run.id)).way == "back":
        await return_to_service(world)
        power_on(world)
        await some_time(world)
        ended = await world.cloud.journal.get(run.id)
        assert (ended.state, ended.problem) == ("undone", None), ended.message
        record = await record_of(world, run)
        assert (record.host, record.vm_state, record.flavor.flavor_id) == (DEAD, "active", SMALL.flavor_id)
        assert not (found := (await prove(world.cloud)).violations), found
    await world.close()
    return was_killed


@VARIANTS
async def test_a_source_that_was_given_up_may_return_after_each_undo(variant: str) -> None:
    """Before the undo that starts its guest it starts as ever; later it is off, and moves if its volumes are loose."""
    kinds = []
    while (kind := await returned_after_undo(variant, len(kinds) + 1)) is not None:
        kinds.append(kind)
    assert kinds == sorted(kinds)
    assert set(kinds) == {"started", "was loose" if variant == "devices" else "was off"}


async def returned_after_undo(variant: str, number: int) -> str | None:
    world, run = await reverting(variant, after="start_on_target")
    await declare_dead(world)
    await give_up_source(world.cloud, world.engine("e"), run.id)
    undone: list[str] = []

    def returns(_: Run, entry: LogEntry) -> None:
        undone.extend([entry.step] if (entry.way, entry.outcome) == ("undo", "done") else [])
        if len(undone) == number:
            power_on(world)

    await some_time(world, world.engine("d", took_step=returns))
    if len(undone) < number:
        await world.close()
        return None
    await return_to_service(world)
    await some_time(world)
    ended = await world.cloud.journal.get(run.id)
    assert (ended.state, ended.problem, ended.message) == ("undone", None, None), undone
    record = await record_of(world, run)
    assert (record.host, record.vm_state, record.task_state) == (DEAD, "active", None)
    kind = "started" if (await guest_of(world, record)).power == "running" else "was off"
    if "reserved" in await attachments_of(world, record):
        assert kind == "was off"
        kind = "was loose"
        await migrated(world, record)
        record = await record_of(world, run)
    await power.reboot(world.cloud, world.engine("e"), world.requester(), record, hard=True)
    await world.settle(world.engine("e"))
    guest = await guest_of(world, record)
    assert (guest.power, guest.has_disk) == ("running", True), undone
    assert await attachments_of(world, record) <= {"attached"}
    assert not (found := (await prove(world.cloud)).violations), found
    await world.close()
    return kind


async def migrated(world: World, record: Server) -> None:
    """Its guest is not started with loose volumes. Migrate it: the target connects them."""
    engine, asked = world.engine("e"), world.requester()
    with pytest.raises(Conflict, match=r"connected to no host.*migrate the server"):
        await power.reboot(world.cloud, engine, asked, record, hard=True)
    with pytest.raises(Conflict, match=r"connected to no host.*migrate the server"):
        await rebuild.accept(world.cloud, engine, asked, record, {})
    await power.stop(world.cloud, engine, asked, record)
    await world.settle(engine)
    record = await lookup.find(world.cloud, record.id)
    with pytest.raises(Conflict, match=r"connected to no host.*migrate the server"):
        await power.start(world.cloud, engine, asked, record)
    with pytest.raises(Conflict, match=r"connected to no host.*migrate the server"):
        await rescue.rescue(world.cloud, engine, asked, record, RescueDisk(image_id="image"))
    with pytest.raises(Conflict, match=r"connected to no host.*offload and unshelve"):
        await shelve.unshelve_in_place(world.cloud, engine, asked, record)
    await requests.migrate(world.cloud, engine, asked, record, None)
    await world.settle(engine)
    await requests.confirm(world.cloud, engine, asked, await lookup.find(world.cloud, record.id))
    await world.settle(engine)
    await power.start(world.cloud, engine, asked, await lookup.find(world.cloud, record.id))
    await world.settle(engine)


async def test_a_resize_of_a_server_with_loose_volumes_takes_another_host() -> None:
    """Also if a resize may stay on its host, and that one has the most room: its agent would not start the guest."""
    world, run = await reverting("devices", after="start_on_target")
    await declare_dead(world)
    await give_up_source(world.cloud, world.engine("e"), run.id)
    await some_time(world)
    power_on(world)
    await return_to_service(world)
    await some_time(world)
    record = await record_of(world, run)
    assert await attachments_of(world, record) == {"reserved"}
    order, other = Order(RunId("another"), 1, 1), ConsumerId(world.cloud.ids.uuid())
    less = {
        host.id: {"MEMORY_MB": 2560, "DISK_GB": 30, "VCPU": 4}
        for host in await world.cloud.cell(CellName("c1")).hosts.all()
        if host.name != DEAD
    }
    await world.cloud.placement.claim(order, other, run.facts.owner, less)
    cloud = with_fields(world.cloud, rules=replace(world.cloud.rules, allow_resize_to_same_host=True))
    engine = world.engine("e")
    await requests.resize(cloud, engine, world.requester(), record, LARGE)
    await world.settle(engine)
    record = await record_of(world, run)
    [move] = await world.cloud.journal.find(RunFilter(subject=record.id, sagas=("resize",), limit=1))
    assert [entry.detail for entry in move.log if entry.outcome == "refused"] == []
    assert record.host != DEAD
    assert record.vm_state == "resized"
    assert await attachments_of(world, record) == {"attached"}
    await world.cloud.placement.release(order, other)
    assert not (found := (await prove(world.cloud)).violations), found
    await world.close()


async def attachments_of(world: World, record: Server) -> set[str]:
    return {(await world.cloud.volumes.attachment(one.attachment_id)).status for one in record.volumes}


@BEFORE_OR_AFTER
@pytest.mark.parametrize("after", ["", "start_on_target"], ids=["guest at the target", "no guest"])
async def test_a_process_may_be_killed_at_each_write(after: str, before: bool) -> None:
    assert await at_each_write(lambda number: killed_at(number, before, after)) > 2


async def killed_at(number: int, before: bool, after: str) -> bool:
    world, run = await reverting("crosses" if not after else "devices", after=after)
    await declare_dead(world)
    life, was_killed = [number], False
    try:
        await give_up_source(mortal(world, life, before=before), world.engine("victim"), run.id)
    except Killed:
        was_killed = True
    now = await world.cloud.journal.get(run.id)
    if now.way == "back":
        await some_time(world)
        now = await world.cloud.journal.get(run.id)
    if now.way == "back" and not now.is_over:
        await give_up_source(world.cloud, world.engine("e"), run.id)
    await some_time(world)
    if after:
        assert (await world.cloud.journal.get(run.id)).state == "undone"
        assert (await record_of(world, run)).host == DEAD
    else:
        await forget(world.cloud, Bus(), DEAD)
        await some_time(world)
        assert (await world.cloud.journal.get(run.id)).state == "done"
        await assert_stays_at_target(world, run)
    await world.close()
    return was_killed


def mortal(world: World, life: list[int], *, before: bool) -> Cloud:
    writes = ["insert", "stand", "erase", "change_by_run"]
    cells = {
        name: with_fields(cell, servers=Mortal(cell.servers, writes, life, before))
        for name, cell in world.cloud.cells.items()
    }
    changed: Any = with_fields(
        world.cloud,
        cells=cells,
        journal=Mortal(world.cloud.journal, ["save"], life, before),
        directory=Mortal(world.cloud.directory, ["switch"], life, before),
    )
    return changed  # type: ignore[no-any-return]
