"""Hosts that never return: they die, are forgotten on evidence, and processes are killed while they are."""

from dataclasses import replace as with_fields
from typing import Any

import sqlalchemy as sa

from tests.booting import boot_server
from tests.stories.mortal import Killed, Mortal
from whimbrel.adapters.sql.tables.cell import hosts
from whimbrel.domain.ids import CellName, HostName
from whimbrel.hosts.admission import find
from whimbrel.hosts.forgetting import forget
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.hosts.bus_access import BusAccess
from whimbrel.ports.stores.host_keys import Invitation
from whimbrel.proof.proof import prove
from whimbrel.saga.engine import Engine
from whimbrel.sim.cloud.cloud import CELL, World
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
    return await boot_server(world, engine, server, DEAD)


async def die(world: World) -> None:
    """The host loses its power; nobody says so, its heartbeats are just old."""
    await world.lose_host(DEAD)
    await _see(world, 1.0)


def power_on(world: World) -> None:
    """The agent of the host answers again."""
    world.reconnect(DEAD)
    world.simulated.off.discard(DEAD)


async def return_to_service(world: World) -> None:
    """The host has heartbeats again, and an administrator takes back that it is down."""
    await world.cloud.cell(CELL).hosts.set_service(DEAD, enabled=True, disabled_reason=None, forced_down=False)
    await _see(world, 1e12)


async def _see(world: World, seen_at: float) -> None:
    async with world.remains.databases[f"cell_{CELL}"].write() as tx:
        await tx.run(sa.update(hosts).where(hosts.c.name == DEAD).values(seen_at=seen_at))


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


async def some_time(world: World, engine: Engine | None = None) -> None:
    """Drive what is due, again and again; what waits for a host that is silent is still open then."""
    engine = engine or world.engine("d")
    for _ in range(8):
        await world.cloud.clock.sleep(100.0)
        for run in await world.cloud.journal.take(engine.name, world.cloud.clock.now(), engine.lease_s, 100):
            await engine.drive(run)


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


async def forgotten_though_killed(world: World, number: int, before: bool) -> bool:
    """Kill a process at a write while it forgets the host, and repeat that. Return whether it was killed."""
    bus, life, was_killed = Bus(), [number], False
    dying: Any = Mortal(bus, ["revoke"], life, before)
    try:
        await forget(mortal(world, life, before), dying, DEAD)
    except Killed:
        was_killed = True
        assert not (found := (await prove(world.cloud)).violations), found
    if await find(world.cloud, DEAD):
        assert await forget(world.cloud, bus, DEAD)
    await some_time(world)
    assert bus.revoked
    await assert_gone(world)
    return was_killed
