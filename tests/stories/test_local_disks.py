"""Ephemeral and swap disks in unusual moves: a smaller flavor, a guest without these disks."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.booting import boot_server
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import DiskName, GuestKey
from whimbrel.domain.ids import CellName, HostName, Slot
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.moves.facts import target_of, target_spec
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.cloud.cloud import LARGE, SMALL, World

ROOMY = replace(SMALL, flavor_id="5", name="roomy", ephemeral_gib=2, swap_mib=512)
ROOMIER = replace(LARGE, flavor_id="6", name="roomier", ephemeral_gib=3, swap_mib=0)
TIGHT = replace(LARGE, flavor_id="7", name="tight", ephemeral_gib=1, swap_mib=512)

ONE_CELL, TWO_CELLS = {"c1": ("h1", "h2")}, {"c1": ("h1",), "c2": ("h2",)}


async def booted(cells: dict[str, Sequence[str]], flavor: Flavor) -> tuple[World, Engine, Server]:
    world = await World.build(cells=cells, rules=Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0))
    engine, server = world.engine("one"), world.new_server("s", flavor)
    await boot_server(world, engine, server, "h1")
    return world, engine, await lookup.find(world.cloud, server.id)


async def resized(world: World, engine: Engine, server: Server, flavor: Flavor) -> Server:
    await requests.resize(world.cloud, engine, world.requester(), server, flavor, leaves_cell=True)
    await world.settle(engine)
    return await lookup.find(world.cloud, server.id)


async def size_gib(world: World, server: Server, disk: DiskName) -> float:
    assert server.host
    has = await world.hypervisors[HostName(server.host)].disk(GuestKey(server.id, Slot(server.slot or "")), disk)
    return has.size_bytes / (1 << 30) if has else 0.0


@pytest.mark.parametrize("flavor", [TIGHT, LARGE], ids=["smaller", "none"])
async def test_an_ephemeral_disk_is_not_made_smaller(flavor: Flavor) -> None:
    world, engine, server = await booted(ONE_CELL, ROOMY)
    before = await books(world)
    result = await requests.plan(world.cloud, server, await requests.resize_facts(world.cloud, server, flavor))
    assert "Unable to resize disk down" in str(result)
    now = await resized(world, engine, server, flavor)
    [run] = await world.cloud.journal.find(RunFilter(subject=server.id, sagas=("resize",)))
    assert (now.vm_state, now.task_state, run.state) == ("active", None, "undone")
    assert "Unable to resize disk down" in (run.message or "")
    assert await books(world) == before


@pytest.mark.parametrize("cells", [ONE_CELL, TWO_CELLS], ids=["a cell", "two cells"])
async def test_what_the_new_flavor_does_not_give_is_not_there(cells: dict[str, Sequence[str]]) -> None:
    world, engine, server = await booted(cells, ROOMY)
    now = await resized(world, engine, server, ROOMIER)
    assert (now.vm_state, now.host) == ("resized", "h2")
    assert [await size_gib(world, now, disk) for disk in ("root", "ephemeral", "swap")] == [2, 3, 0]
    assert [await size_gib(world, server, disk) for disk in ("root", "ephemeral", "swap")] == [1, 2, 0.5]


@pytest.mark.parametrize("cells", [ONE_CELL, TWO_CELLS], ids=["a cell", "two cells"])
async def test_a_guest_that_is_older_than_such_disks_gets_them_with_its_next_move(
    cells: dict[str, Sequence[str]],
) -> None:
    world, engine, server = await booted(cells, ROOMY)
    await make_older(world, server)
    now = await resized(world, engine, server, replace(ROOMIER, swap_mib=1024))
    assert [await size_gib(world, now, disk) for disk in ("root", "ephemeral", "swap")] == [2, 3, 1]
    await requests.revert(world.cloud, engine, world.requester(), now)
    await world.settle(engine)
    [(host, guest)] = world.simulated.guests()
    assert (host, guest.power, guest.disks) == ("h1", "running", ("root",))


async def make_older(world: World, server: Server) -> None:
    """Make its guest as hosts made guests before there were such disks."""
    [run] = await world.cloud.journal.find(RunFilter(subject=server.id, sagas=("create",)))
    assert target_of(run).cell == CellName("c1")
    hypervisor, spec = world.hypervisors[HostName("h1")], target_spec(run)
    plain = replace(spec, ephemeral_gib=0, swap_mib=0)
    await hypervisor.destroy(spec.key)
    await hypervisor.reserve(plain)
    await hypervisor.create_disk(plain, lambda _percent: None)
    await hypervisor.define(spec)
    await hypervisor.start(spec.key)
