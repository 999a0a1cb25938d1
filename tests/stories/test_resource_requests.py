"""Flavors that request more than sizes: servers are placed where it is, get it and release it, under every fault."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.booting import boot_server
from tools.scenarios.incarnations import Incarnations, Result, watched
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, HostName, ProviderId, RunId
from whimbrel.domain.run import Run
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.placement.placement import Inventory, Owner
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.checks.invariants import Invariants, Violation, books
from whimbrel.sim.cloud.cloud import PROJECT, SMALL, USER, World
from whimbrel.sim.faults.chaos import Chaos, Fault, Plan

SIZES = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 1}
RED, BLUE = "CUSTOM_RED", "CUSTOM_BLUE"


def flavor(name: str, specs: dict[str, str]) -> Flavor:
    return Flavor(flavor_id=name, name=name, vcpus=1, memory_mib=1024, root_gib=1, extra_specs=specs)


GPU = flavor("gpu", {"resources:CUSTOM_GPU": "1", "trait:CUSTOM_SSD": "required"})
NO_SSD = flavor("no ssd", {"resources:CUSTOM_GPU": "1", "trait:CUSTOM_SSD": "forbidden"})
CARDS = flavor(
    "cards",
    {"resources1:VGPU": "1", "resources2:VGPU": "1", "trait1:CUSTOM_RED": "required", "group_policy": "isolate"},
)
ONE_CARD = flavor("one card", {"resources_A:VGPU": "1"})
DEDICATED = flavor("dedicated", {"hw:cpu_policy": "dedicated"})
NO_DISK = flavor("no disk", {"resources:DISK_GB": "0"})


async def offer(world: World, host: str, traits: list[str], **amounts: int) -> None:
    """Make a host offer this besides its sizes."""
    state = await provider(world, host)
    node = await world.placement.node(state)
    stocks = {name: stock.inventory for name, stock in node.stocks.items()}
    more = {name: Inventory(total=amount, max_unit=amount) for name, amount in amounts.items()}
    await world.placement.register_host(state, host, {**stocks, **more})
    await world.placement.offer_traits(state, traits)


async def add_host_nic(world: World, host: str, name: str, traits: list[str]) -> ProviderId:
    """Create a host a card with one VGPU below it."""
    uuid = ProviderId(world.cloud.ids.uuid())
    await world.placement.create_provider(uuid, f"{host}:{name}", await provider(world, host))
    await world.placement.set_inventories(uuid, None, {"VGPU": Inventory(total=1)})
    await world.placement.offer_traits(uuid, traits)
    return uuid


async def provider(world: World, name: str) -> ProviderId:
    return next(one.id for one in await world.placement.providers() if one.name == name)


async def a_world(scheduler: SchedulerRules | None = None) -> World:
    """h1 has nothing; h2 a GPU, and a red card; h3 a GPU, the SSD, dedicated CPUs, a red card and a blue one."""
    rules = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, scheduler=scheduler or SchedulerRules())
    world = await World.build(rules=rules)
    await offer(world, "h2", [], CUSTOM_GPU=1)
    await offer(world, "h3", ["CUSTOM_SSD"], CUSTOM_GPU=2, PCPU=2)
    await add_host_nic(world, "h2", "red", [RED])
    await add_host_nic(world, "h3", "red", [RED])
    await add_host_nic(world, "h3", "blue", [BLUE])
    return world


async def made(world: World, flavor: Flavor, host: str | None = None) -> Server:
    new = world.new_server("s", flavor)
    engine = world.engine("setup")
    await boot_server(world, engine, new, host)
    await check(world)
    return await lookup.find(world.cloud, new.id)


async def held(world: World, server: Server) -> dict[str, Mapping[str, int]]:
    """Return what a server and its moves hold, by the names of providers."""
    names = {one.id: one.name for one in await world.placement.providers()}
    return {names[one.provider]: one.resources for one in await world.placement.allocations([ConsumerId(server.id)])}


async def resized(world: World, server: Server, flavor: Flavor) -> Server:
    engine = world.engine("resize")
    await requests.resize(world.cloud, engine, world.requester(), server, flavor)
    await world.settle(engine)
    await check(world)
    return await lookup.find(world.cloud, server.id)


async def ended(world: World, server: Server, end: Any) -> Server:
    engine = world.engine("end")
    await end(world.cloud, engine, world.requester(), server)
    await world.settle(engine)
    await check(world)
    return await lookup.find(world.cloud, server.id)


async def check(world: World) -> None:
    for hypervisor in world.hypervisors.values():
        await hypervisor.guests()  # they look at what they keep when they are first asked
    await Invariants(world).check()


async def latest(world: World, server: Server) -> Run:
    [run] = await world.cloud.journal.find(RunFilter(subject=server.id, limit=1))
    return run


@pytest.mark.parametrize(
    ("wanted", "host", "claims"),
    [
        (GPU, "h3", {"h3": {**SIZES, "CUSTOM_GPU": 1}}),
        (NO_SSD, "h2", {"h2": {**SIZES, "CUSTOM_GPU": 1}}),
        (CARDS, "h3", {"h3": SIZES, "h3:red": {"VGPU": 1}, "h3:blue": {"VGPU": 1}}),
        (DEDICATED, "h3", {"h3": {"PCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 1}}),
    ],
    ids=lambda one: one.name if isinstance(one, Flavor) else "",
)
async def test_a_resize_goes_where_it_is_and_a_revert_gives_it_back(
    wanted: Flavor, host: str, claims: dict[str, Mapping[str, int]]
) -> None:
    world = await a_world()
    server = await made(world, SMALL, "h1")
    before = await books(world)
    moved = await resized(world, server, wanted)
    assert (moved.host, await held(world, server)) == (host, claims)
    assert (await ended(world, moved, requests.revert)).host == "h1"
    assert await books(world) == before
    moved = await resized(world, await lookup.find(world.cloud, server.id), wanted)
    await ended(world, moved, requests.confirm)
    assert await held(world, server) == claims
    await world.close()


async def test_from_one_such_flavor_to_another_and_back() -> None:
    world = await a_world()
    server = await made(world, CARDS)
    assert server.host == "h3"
    before, claims = await books(world), await held(world, server)
    moved = await resized(world, server, NO_SSD)
    assert (moved.host, await held(world, server)) == ("h2", {"h2": {**SIZES, "CUSTOM_GPU": 1}})
    back = await ended(world, moved, requests.revert)
    assert (back.host, await held(world, server)) == ("h3", claims)
    assert await books(world) == before
    moved = await ended(world, await resized(world, back, NO_DISK), requests.confirm)
    assert list((await held(world, server)).values()) == [{"VCPU": 1, "MEMORY_MB": 1024}]
    await world.close()


async def test_nobody_has_dedicated_cpus_so_shared_ones_are_had_unless_that_is_forbidden() -> None:
    for forbidden in (False, True):
        rules = SchedulerRules(disable_fallback_pcpu_query=forbidden)
        world = await World.build(rules=Rules(cpu_allocation_ratio=1.0, scheduler=rules))
        server = await made(world, DEDICATED)
        assert (server.vm_state, list((await held(world, server)).values())) == (
            ("error", []) if forbidden else ("active", [SIZES])
        )
        await world.close()


async def test_who_has_dedicated_cpus_gives_no_shared_ones_instead() -> None:
    world = await a_world()
    servers = [await made(world, DEDICATED) for _ in range(3)]
    assert [server.host for server in servers] == ["h3", "h3", None]
    assert "no room for 1 PCPU" in str(servers[2].fault)
    await world.close()


async def test_an_image_asks_too() -> None:
    world = await a_world()
    new = replace(world.new_server("s"), image_properties={"trait:CUSTOM_SSD": "required"})
    engine = world.engine("e")
    server = await boot_server(world, engine, new)
    assert server.host == "h3"
    bad = replace(world.new_server("t"), image_properties={"trait:SSD": "perhaps"})
    with pytest.raises(Invalid, match="trait:SSD"):
        await create.accept(world.cloud, engine, world.requester(), [bad])
    with pytest.raises(Invalid, match="CUSTOM_SSD is forbidden by the flavor"):
        await resized(world, server, NO_SSD)
    await world.close()


async def test_who_cannot_have_it_stays_and_hears_what_is_lacking() -> None:
    world = await a_world()
    server = await made(world, SMALL, "h1")
    first = await made(world, CARDS)
    before = await books(world)
    await resized(world, server, CARDS)
    run = await latest(world, server)
    assert run.state == "undone"
    assert await books(world) == before
    assert run.message
    assert "no device with CUSTOM_RED" in run.message or "VGPU on a device with CUSTOM_RED" in run.message
    assert first.host == "h3"
    await world.close()


async def test_an_aggregate_may_be_kept_for_a_trait() -> None:
    world = await a_world(SchedulerRules(enable_isolated_aggregate_filtering=True))
    cloud, now = world.cloud, world.cloud.clock.now()
    aggregate = await cloud.aggregates.create("ssd", "a" * 32, {"trait:CUSTOM_SSD": "required"}, now)
    await cloud.aggregates.add_host(aggregate.id, HostName("h3"), now)
    await cloud.placement.set_aggregates(await provider(world, "h3"), [aggregate.uuid])
    assert (await made(world, flavor("g", {"resources:CUSTOM_GPU": "1"}))).host == "h2"
    assert (await made(world, flavor("g", {"resources:CUSTOM_GPU": "1"}))).host is None
    assert (await made(world, GPU)).host == "h3"
    await world.close()


# All ways of a host


async def test_what_was_taken_meanwhile_is_had_in_the_hosts_other_way() -> None:
    """The only host with room has two cards; somebody takes the first one when it is chosen already."""
    world = await World.build(["h1", "h2"])
    cards = [await add_host_nic(world, "h2", name, []) for name in ("one", "two")]
    server = await made(world, SMALL, "h1")
    copy = await world.copy()
    rehearsal = Chaos({})
    await _resize(rehearsal.wrap(copy.cloud), copy, server)
    await copy.close()
    chaos = Chaos({rehearsal.touches.index("placement.claim"): Fault.SLEEP})
    sleeping = asyncio.create_task(_resize(chaos.wrap(world.cloud), world, server))
    await chaos.asleep.wait()
    parts = (await latest(world, server)).facts.target.parts
    [chosen] = [card for card in cards if card in parts]
    order, owner = Order(RunId("thief"), 1), Owner(PROJECT, USER)
    await world.placement.claim(order, ConsumerId("thief"), owner, {chosen: {"VGPU": 1}})
    chaos.wake.set()
    await sleeping
    await world.settle(world.engine("afterwards"))
    run = await latest(world, server)
    assert (run.state, run.facts.target.host) == ("parked", "h2")
    [other] = set(cards) - {chosen}
    assert other in run.facts.target.parts
    await world.close()


async def _resize(cloud: Cloud, world: World, server: Server) -> None:
    engine = world.engine("e", cloud)
    await requests.resize(cloud, engine, world.requester(), server, ONE_CARD)
    for run in await cloud.journal.take(engine.name, cloud.clock.now(), engine.lease_s, 10):
        await engine.drive(run)


# Every crash


class Requested(Incarnations):
    """A server with two cards is resized to a flavor with a GPU on another host."""

    def __init__(self, end: str, *plans: Plan) -> None:
        super().__init__(*plans)
        self._end = end

    async def set_the_scene(self) -> None:
        if not _SCENE:
            world = await a_world()
            _SCENE.append((world, await made(world, CARDS)))
        scene, self.server = _SCENE[0]
        self.world = await scene.copy()
        self.world.registry = watched(SAGAS, self.world)
        self._invariants = Invariants(self.world)

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        server = await lookup.find(cloud, self.server.id)
        await requests.resize(cloud, engine, self.world.requester(), server, NO_SSD)
        await self._drive(cloud, engine)

    async def say(self, cloud: Cloud, engine: Engine) -> None:
        run = await self.world.cloud.journal.open_run(self.server.id)
        if run is not None and run.state == "parked":
            verdict = requests.confirm if self._end == "confirm" else requests.revert
            server = await lookup.find(cloud, self.server.id)
            await verdict(cloud, engine, self.world.requester(), server)
            await self._drive(cloud, engine)


_SCENE: list[tuple[World, Server]] = []


async def _play(end: str, *plans: Plan) -> list[str]:
    try:
        result = await Requested(end, *plans).play()
        assert len(result.fired) == len(plans), "the fault did not happen"
        await _check(result, end, plans)
    except (AssertionError, Violation) as error:
        raise AssertionError(f"{end} with {plans}: {error}") from error
    return result.incarnations[0].touches


async def _check(result: Result, end: str, plans: tuple[Plan, ...]) -> None:
    claims = await held(result.world, result.server)
    if await books(result.world) == result.before:
        assert end == "revert" or plans
        assert claims == {"h3": SIZES, "h3:red": {"VGPU": 1}, "h3:blue": {"VGPU": 1}}
    else:
        assert end == "confirm"
        assert claims == {"h2": {**SIZES, "CUSTOM_GPU": 1}}
    await result.world.close()


@pytest.mark.parametrize("end", ["confirm", "revert"])
async def test_every_crash(end: str) -> None:
    touches = await _play(end)
    assert len(touches) > 20
    for touch in range(len(touches)):
        await _play(end, {touch: Fault.CRASH_BEFORE})
