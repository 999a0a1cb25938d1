"""A host that never returns is forgotten: on evidence, once nothing is left there, whatever dies meanwhile."""

from dataclasses import replace as with_fields
from typing import Any

import pytest
import sqlalchemy as sa

from tests.stories.mortal import BEFORE_OR_AFTER, Killed, Mortal
from whimbrel.adapters.sql.tables.cell import hosts
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import CellName, ConsumerId, HostName, RunId
from whimbrel.hosts.admission import find, retire
from whimbrel.hosts.forgetting import forget
from whimbrel.moves import evacuation_requests, requests
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.hosts.bus_access import BusAccess
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.stores.host_keys import Invitation
from whimbrel.proof.proof import prove
from whimbrel.reconcilers.returned_sources import clear_returned_sources
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create, delete
from whimbrel.sim.cloud.cloud import CELL, PROJECT, USER, World
from whimbrel.status.cloud_status import read_status

DEAD = HostName("h1")
RULES = Rules(cpu_allocation_ratio=4.0, accept_forced_down=True)
KEY = "U" + "A" * 55


class Bus:
    """Implements BusAccesses; it notes what was revoked."""

    problem = ""

    def __init__(self) -> None:
        self.revoked: list[tuple[str, str]] = []

    async def grant(self, cell: CellName, host: HostName, public_key: str) -> BusAccess:
        raise AssertionError("no host joins")

    async def revoke(self, cell: CellName, public_key: str) -> None:
        self.revoked.append((cell, public_key))


async def cloud_with_a_key(*, fenced: bool = False) -> World:
    """Build a cloud in which h1 has joined with a key, and is in an aggregate."""
    world = await World.build(rules=RULES, fenced=fenced)
    now = world.cloud.clock.now()
    invitation = Invitation(token_hash="t" * 64, host=DEAD, cell=CELL, created_at=now, expires_at=now + 60)
    await world.cloud.host_keys.invite(invitation)
    await world.cloud.host_keys.join("t" * 64, KEY, now)
    rack = await world.cloud.aggregates.create("rack", world.cloud.ids.uuid(), {}, 0.0)
    await world.cloud.aggregates.add_host(rack.id, DEAD, 0.0)
    return world


async def boot(world: World) -> Any:
    engine, server = world.engine("setup"), world.new_server("s")
    await create.accept(world.cloud, engine, world.requester(), [server], DEAD)
    await world.settle(engine)
    return await lookup.find(world.cloud, server.id)


async def die(world: World) -> None:
    """The host loses its power; nobody says so, its heartbeats are just old."""
    await world.lose_host(DEAD)
    async with world.remains.databases[f"cell_{CELL}"].write() as tx:
        await tx.run(sa.update(hosts).where(hosts.c.name == DEAD).values(seen_at=1.0))


async def declare_dead(world: World) -> None:
    await world.cloud.cell(CELL).hosts.set_service(DEAD, enabled=False, disabled_reason=None, forced_down=True)


async def assert_gone(world: World) -> None:
    """No list, no status and no proof knows the host any more."""
    cloud = world.cloud
    assert await find(cloud, DEAD) is None
    assert DEAD not in {each.name for each in await cloud.placement.providers()}
    assert all(DEAD not in each.hosts for each in await cloud.aggregates.all())
    assert (await cloud.host_keys.get(DEAD)).retired_at is not None
    proof = await prove(cloud)
    assert (proof.violations, proof.not_checked) == ((), ())
    assert [one for one in (await read_status(cloud, "", ())).findings if one.kind in ("host", "proof")] == []


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
    with pytest.raises(Conflict, match="is up: retire it"):
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


async def some_time(world: World) -> None:
    """Drive what is due, again and again; what waits for a host that is silent is still open then."""
    engine = world.engine("d")
    for _ in range(8):
        await world.cloud.clock.sleep(100.0)
        for run in await world.cloud.journal.take(engine.name, world.cloud.clock.now(), engine.lease_s, 100):
            await engine.drive(run)


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


def mortal(world: World, life: list[int], before: bool) -> Cloud:
    cells = {
        name: with_fields(cell, hosts=Mortal(cell.hosts, ["delete"], life, before))
        for name, cell in world.cloud.cells.items()
    }
    changed: Any = with_fields(
        world.cloud,
        cells=cells,
        placement=Mortal(world.cloud.placement, ["release", "delete_tree"], life, before),
        host_keys=Mortal(world.cloud.host_keys, ["retire"], life, before),
        aggregates=Mortal(world.cloud.aggregates, ["remove_host"], life, before),
    )
    return changed  # type: ignore[no-any-return]


@BEFORE_OR_AFTER
async def test_a_process_may_be_killed_at_each_write(before: bool) -> None:
    """The host is listed or it is not, the cloud is proved, and the command can be repeated."""
    number = 1
    while await killed_at(number, before):
        number += 1
    assert number > 6


async def killed_at(number: int, before: bool) -> bool:
    world, bus = await cloud_with_a_key(), Bus()
    server = await waiting_delete(world)
    await declare_dead(world)
    life, was_killed = [number], False
    dying: Any = Mortal(bus, ["revoke"], life, before)
    try:
        await forget(mortal(world, life, before), dying, DEAD)
    except Killed:
        was_killed = True
        assert (await prove(world.cloud)).violations == ()
    if await find(world.cloud, DEAD):
        assert await forget(world.cloud, bus, DEAD)
    await some_time(world)
    assert await world.cloud.journal.open_run(server.id) is None
    assert bus.revoked
    await assert_gone(world)
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
    number = 1
    while await killed_beside_a_move(number, before):
        number += 1
    assert number > 6


async def killed_beside_a_move(number: int, before: bool) -> bool:
    world, bus = await cloud_with_a_key(), Bus()
    _, run = await confirmed_move(world)
    await declare_dead(world)
    life, was_killed = [number], False
    dying: Any = Mortal(bus, ["revoke"], life, before)
    try:
        await forget(mortal(world, life, before), dying, DEAD)
    except Killed:
        was_killed = True
        assert (await prove(world.cloud)).violations == ()
    if await find(world.cloud, DEAD):
        assert await forget(world.cloud, bus, DEAD)
    await some_time(world)
    assert (await world.cloud.journal.get(run.id)).state == "done"
    await assert_gone(world)
    await world.close()
    return was_killed
