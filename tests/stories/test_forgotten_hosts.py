"""A host that never returns is forgotten: on evidence, once nothing is left there, whatever dies meanwhile."""

from dataclasses import replace as with_fields
from typing import Any

import pytest

from tests.stories.forgetting import (
    DEAD,
    KEY,
    Bus,
    assert_gone,
    boot,
    cloud_with_a_key,
    declare_dead,
    die,
    forgotten_though_killed,
    some_time,
)
from tests.stories.mortal import BEFORE_OR_AFTER, at_each_write
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, RunId
from whimbrel.domain.run import LogEntry, Run
from whimbrel.hosts.admission import find, retire
from whimbrel.hosts.forgetting import forget
from whimbrel.moves import evacuation_requests, requests, unshelve_requests
from whimbrel.moves.unshelve_requests import Destination
from whimbrel.ports.cloud import Rules
from whimbrel.ports.placement.placement import Owner
from whimbrel.reconcilers.returned_sources import clear_returned_sources
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import delete, shelve
from whimbrel.sim.cloud.cloud import CELL, PROJECT, USER, World


async def test_a_dead_host_is_forgotten_once_its_servers_are_elsewhere() -> None:
    world, bus = await cloud_with_a_key(), Bus()
    server = await boot(world)
    await die(world)
    with pytest.raises(Conflict, match=f"has the server {server.id}"):
        await forget(world.cloud, bus, DEAD)
    await declare_dead(world)
    engine = world.engine("e")
    await evacuation_requests.evacuate(world.cloud, engine, world.requester(), server)
    await world.settle(engine)
    assert (await lookup.find(world.cloud, server.id)).host != DEAD
    evidence = await forget(world.cloud, bus, DEAD)
    assert evidence
    assert evidence.kind == "administrator"
    assert bus.revoked == [(CELL, KEY)]
    await assert_gone(world)
    assert await clear_returned_sources(world.cloud, engine) == 0  # the stale guest is asked for, and nobody answers
    with pytest.raises(NotFound):
        await forget(world.cloud, bus, DEAD)
    await world.close()


async def test_without_evidence_a_host_is_not_forgotten() -> None:
    world, bus = await cloud_with_a_key(), Bus()
    with pytest.raises(Conflict, match=r"is up \(last heartbeat: \d+ s ago; .* retire it .* force-down h1"):
        await forget(world.cloud, bus, DEAD)
    await declare_dead(world)
    with pytest.raises(Conflict, match="agent of host h1 answers"):
        await forget(world.cloud, bus, DEAD)
    await die(world)
    await world.cloud.cell(CELL).hosts.set_service(DEAD, enabled=True, disabled_reason=None, forced_down=False)
    with pytest.raises(Conflict, match=r"no evidence .* no fence device; no administrator has said"):
        await forget(world.cloud, bus, DEAD)
    doubtful: Any = with_fields(world.cloud, rules=Rules(accept_forced_down=False))
    await declare_dead(world)
    with pytest.raises(Conflict, match="accept_forced_down does not count"):
        await forget(doubtful, bus, DEAD)
    assert await find(world.cloud, DEAD)
    assert bus.revoked == []
    await forget(world.cloud, bus, DEAD)
    await assert_gone(world)
    await world.close()


async def test_an_agent_that_answers_names_the_guests_that_are_left() -> None:
    world = await cloud_with_a_key()
    server = await boot(world)
    await declare_dead(world)
    with pytest.raises(Conflict, match=f"says that it has the guest {server.id}"):
        await forget(world.cloud, Bus(), DEAD)
    await world.close()


async def test_a_fence_device_is_evidence() -> None:
    world = await cloud_with_a_key(fenced=True)
    await die(world)
    evidence = await forget(world.cloud, Bus(), DEAD)
    assert evidence
    assert evidence.kind == "power_off"
    await assert_gone(world)
    await world.close()


async def test_allocations_and_open_runs_are_named() -> None:
    world = await cloud_with_a_key()
    server = await boot(world)
    await die(world)
    await declare_dead(world)
    host = await find(world.cloud, DEAD)
    assert host
    owner = Owner(PROJECT, USER)
    await world.placement.claim(Order(RunId("r"), 1), ConsumerId("left over"), owner, {host.id: {"VCPU": 1}})
    await delete.accept(world.cloud, world.engine("d"), world.requester(), server)
    run = await world.cloud.journal.open_run(server.id)
    assert run
    with pytest.raises(Conflict, match=f"has the server {server.id} and the open run {run.id} and"):
        await retire(world.cloud, Bus(), DEAD)
    named = "has the allocation left over: "
    with pytest.raises(Conflict, match=named):
        await forget(world.cloud, Bus(), DEAD)
    await world.close()


async def waiting_delete(world: World) -> Any:
    """Return a server whose delete waits for the agent of the dead host."""
    server = await boot(world)
    await die(world)
    await delete.accept(world.cloud, world.engine("d"), world.requester(), server)
    await some_time(world)
    assert await world.cloud.journal.open_run(server.id)
    return server


async def test_deletes_that_wait_for_the_host_end() -> None:
    world, bus = await cloud_with_a_key(), Bus()
    server = await waiting_delete(world)
    with pytest.raises(Conflict, match="no evidence"):
        await forget(world.cloud, bus, DEAD)
    await declare_dead(world)
    await some_time(world)
    assert await world.cloud.journal.open_run(server.id), "a host that is not forgotten may come back with the guest"
    await forget(world.cloud, bus, DEAD)
    await some_time(world)
    assert await world.cloud.journal.open_run(server.id) is None
    with pytest.raises(NotFound):
        await lookup.find(world.cloud, server.id)
    await assert_gone(world)
    await world.close()


async def test_a_host_that_retires_keeps_its_deletes() -> None:
    world = await cloud_with_a_key()
    server = await waiting_delete(world)
    await declare_dead(world)
    with pytest.raises(Conflict, match=f"has the server {server.id}"):
        await retire(world.cloud, Bus(), DEAD)
    await world.close()


@BEFORE_OR_AFTER
async def test_a_process_may_be_killed_at_each_write(before: bool) -> None:
    """The host is listed or it is not, the cloud is proved, and the command can be repeated."""
    assert await at_each_write(lambda number: killed_at(number, before)) > 6


async def killed_at(number: int, before: bool) -> bool:
    world = await cloud_with_a_key()
    server = await waiting_delete(world)
    await declare_dead(world)
    was_killed = await forgotten_though_killed(world, number, before)
    assert await world.cloud.journal.open_run(server.id) is None
    await world.close()
    return was_killed


# Moves whose source is the host


async def confirmed_move(world: World) -> tuple[Any, Any]:
    """Return a server that was migrated away before its former host died, and its confirmed move, which waits."""
    server, engine = await boot(world), world.engine("d")
    await requests.migrate(world.cloud, engine, world.requester(), server, None)
    await world.settle(engine)
    await die(world)
    await requests.confirm(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await some_time(world)
    run = await world.cloud.journal.open_run(server.id)
    assert run
    assert run.at == "destroy_on_source"
    return server, run


async def test_a_confirmed_move_from_the_host_ends() -> None:
    world, bus = await cloud_with_a_key(), Bus()
    server, run = await confirmed_move(world)
    with pytest.raises(Conflict, match="no evidence"):
        await forget(world.cloud, bus, DEAD)
    await declare_dead(world)
    await some_time(world)
    assert await world.cloud.journal.open_run(server.id), "a host that is not forgotten may come back with the guest"
    with pytest.raises(Conflict, match=f"has the open run {run.id}"):
        await retire(world.cloud, bus, DEAD)
    await forget(world.cloud, bus, DEAD)
    await some_time(world)
    assert (await world.cloud.journal.get(run.id)).state == "done"
    record = await lookup.find(world.cloud, server.id)
    assert (record.vm_state, record.host != DEAD) == ("active", True)
    await assert_gone(world)
    await world.close()


async def test_moves_that_need_more_of_the_host_keep_it() -> None:
    """A move that waits for its verdict, or goes back to the host, may still need the guest there."""
    world = await cloud_with_a_key()
    server, engine = await boot(world), world.engine("d")
    await requests.migrate(world.cloud, engine, world.requester(), server, None)
    await world.settle(engine)
    await die(world)
    await declare_dead(world)
    run = await world.cloud.journal.open_run(server.id)
    assert run
    with pytest.raises(Conflict, match=f"has the open run {run.id}: .* waits for a verdict: confirm it"):
        await forget(world.cloud, Bus(), DEAD)
    await requests.revert(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await some_time(world)
    with pytest.raises(Conflict, match=f"{run.id} is on its way back at .*, and goes on when h1 answers"):
        await forget(world.cloud, Bus(), DEAD)
    await world.close()


@BEFORE_OR_AFTER
async def test_a_process_may_be_killed_while_a_confirmed_move_is_left(before: bool) -> None:
    assert await at_each_write(lambda number: killed_beside_a_move(number, before)) > 6


async def killed_beside_a_move(number: int, before: bool) -> bool:
    world = await cloud_with_a_key()
    _, run = await confirmed_move(world)
    await declare_dead(world)
    was_killed = await forgotten_though_killed(world, number, before)
    assert (await world.cloud.journal.get(run.id)).state == "done"
    await world.close()
    return was_killed


# Offloads of shelved servers


@pytest.mark.parametrize("by", ["offload", "shelve"])
async def test_an_offload_from_the_host_ends(by: str) -> None:
    """All that is kept of the server is in its images; nothing on the host is needed."""
    world, bus = await cloud_with_a_key(), Bus()
    server, run = await waiting_offload(world, by)
    with pytest.raises(Conflict, match="no evidence"):
        await forget(world.cloud, bus, DEAD)
    await declare_dead(world)
    await some_time(world)
    assert await world.cloud.journal.open_run(server.id), "a host that is not forgotten may come back with the guest"
    with pytest.raises(Conflict, match=f"has the server {server.id}"):
        await retire(world.cloud, bus, DEAD)
    await forget(world.cloud, bus, DEAD)
    await some_time(world)
    assert (await world.cloud.journal.get(run.id)).state == "done"
    record = await lookup.find(world.cloud, server.id)
    assert (record.vm_state, record.host) == ("shelved_offloaded", None)
    await assert_gone(world)
    await unshelve_requests.unshelve(world.cloud, world.engine("u"), world.requester(), record, Destination())
    await world.settle(world.engine("u"))
    assert (await lookup.find(world.cloud, server.id)).vm_state == "active"
    await world.close()


async def test_an_offload_without_its_images_keeps_the_host() -> None:
    """Its disks on the host may be all that is left."""
    world = await cloud_with_a_key()
    server, _ = await waiting_offload(world, "offload")
    for image in server.shelved_images.values():
        await world.cloud.images.delete(image)
    await declare_dead(world)
    with pytest.raises(Conflict, match="is not there; nothing is destroyed"):
        await forget(world.cloud, Bus(), DEAD)
    await world.close()


@BEFORE_OR_AFTER
async def test_a_process_may_be_killed_while_an_offload_is_left(before: bool) -> None:
    assert await at_each_write(lambda number: killed_beside_an_offload(number, before)) > 6


async def killed_beside_an_offload(number: int, before: bool) -> bool:
    world = await cloud_with_a_key()
    _, run = await waiting_offload(world, "offload")
    await declare_dead(world)
    was_killed = await forgotten_though_killed(world, number, before)
    assert (await world.cloud.journal.get(run.id)).state == "done"
    await world.close()
    return was_killed


async def waiting_offload(world: World, by: str) -> tuple[Any, Any]:
    """Return a shelved server whose offload waits for the agent of the dead host, and its run."""
    server = await boot(world)

    def cut_off(run: Run, entry: LogEntry) -> None:
        if entry.step == "mark_shelved" and by == "shelve":
            world.disconnect(DEAD)

    engine = world.engine("d", took_step=cut_off)
    kept: Any = with_fields(world.cloud, rules=Rules(shelved_offload_time_s=0 if by == "shelve" else -1))
    await shelve.shelve(kept, engine, world.requester(), server)
    await some_time(world, engine)
    await die(world)
    if by == "offload":
        await shelve.offload(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
        await some_time(world)
    run = await world.cloud.journal.open_run(server.id)
    assert run
    assert (run.saga.startswith("shelve"), run.at) == (True, "destroy_shelved")
    return await lookup.find(world.cloud, server.id), run
