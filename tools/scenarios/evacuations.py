"""Stories of evacuations: a server whose host is dead, what is evident of that, and the result without faults."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from msgspec.structs import replace as with_

from tools.scenarios.bound import bound
from tools.scenarios.incarnations import Incarnations, Result, watched
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import WorldError
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.host import Zone
from whimbrel.domain.ids import HostName
from whimbrel.domain.pci import ALIAS
from whimbrel.domain.server import Server
from whimbrel.moves.evacuation_facts import EvacuationFacts, starts
from whimbrel.moves.evacuation_requests import evacuate
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.reconcilers.returned_sources import clear_returned_sources
from whimbrel.saga.engine import Engine
from whimbrel.servers import edit, lookup
from whimbrel.servers.lifecycle import create, power
from whimbrel.sim.checks.invariants import Invariants
from whimbrel.sim.cloud.cloud import SMALL, World
from whimbrel.sim.faults.chaos import Plan
from whimbrel.sim.world.equipment import GPU, GPUS, with_a_boot_volume, with_a_function, with_devices

SOURCE = HostName("h1")
NORTH = Zone(id="7", name="north")

Death = Literal["lost power", "power cut, agent alive", "cut off", "cut off, has a fence"]


@dataclass(frozen=True)
class Evacuating:
    """A server on h1, which is dead. returns: whether the host comes back at the end, with its stale guest."""

    name: str
    death: Death = "lost power"
    was: Literal["active", "stopped", "error"] = "active"
    stops: bool = False  # as from microversion 2.95 on
    host: str | None = None  # named by an administrator
    returns: bool = True
    crosses: bool = False  # to another cell
    devices: bool = False  # with ports, bandwidth and volumes
    function: bool = False
    alias: bool = False
    boots_from_volume: bool = False
    local_disks: bool = False
    bound: bool = False  # in a server group, and pinned to its zone
    leaves_zone: bool = False  # the other hosts are in another zone

    def __str__(self) -> str:
        return self.name

    @property
    def flavor(self) -> Flavor:
        if self.local_disks:
            return with_(SMALL, ephemeral_gib=1, swap_mib=512)
        return with_(SMALL, extra_specs={ALIAS: f"{GPU.name}:1"}) if self.alias else SMALL


STORIES = (
    Evacuating("evacuation"),
    Evacuating("evacuation, the host stays away", returns=False),
    Evacuating("evacuation of a stopped server", was="stopped"),
    Evacuating("evacuation of a server in error", was="error"),
    Evacuating("evacuation that leaves it stopped", stops=True),
    Evacuating("evacuation to a named host", host="h3"),
    Evacuating("evacuation after its agent says that the guest is off", death="power cut, agent alive"),
    Evacuating("evacuation of a server whose host is cut off, by its fence device", death="cut off, has a fence"),
    Evacuating("evacuation with ports and volumes", devices=True),
    Evacuating("evacuation with ports and volumes to another zone", devices=True, leaves_zone=True),
    Evacuating("evacuation with a virtual function", function=True),
    Evacuating("evacuation with devices of the flavor", alias=True),
    Evacuating("evacuation of a server on a volume", boots_from_volume=True),
    Evacuating("evacuation with an ephemeral and a swap disk", local_disks=True),
    Evacuating("evacuation in a group and a zone", bound=True),
    Evacuating("evacuation to another cell", crosses=True),
    Evacuating("evacuation in a group and a zone to another cell", crosses=True, bound=True),
    Evacuating("evacuation with ports and volumes to another cell", crosses=True, devices=True),
    Evacuating("evacuation of a server on a volume to another cell", crosses=True, boots_from_volume=True),
    Evacuating("evacuation with a virtual function to another cell", crosses=True, function=True),
)


class Trial(Incarnations):
    """Runs the story of one evacuation."""

    def __init__(self, story: Evacuating, *plans: Plan) -> None:
        super().__init__(*plans)
        self.story = story

    async def set_the_scene(self) -> None:
        scene = replace(self.story, name="", returns=True)
        if scene not in _SCENES:
            _SCENES[scene] = await _scene(self.story)
        staged, self.server = _SCENES[scene]
        self.world = await staged.copy()
        self.world.registry = watched(SAGAS, self.world)
        self._invariants = Invariants(self.world)

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        server = await lookup.find(cloud, self.server.id)
        host = HostName(self.story.host) if self.story.host else None
        await evacuate(
            cloud,
            engine,
            self.world.requester(),
            server,
            host,
            stops=self.story.stops,
            leaves_cell=self.story.crosses,
        )
        await self._drive(cloud, engine)

    async def say(self, cloud: Cloud, engine: Engine) -> None:
        """Let the host come back, once the evacuation is over."""
        if await self.world.cloud.journal.open_run(self.server.id) is not None or not self.story.returns:
            return
        self.world.simulated.power_on(SOURCE)
        self.world.reconnect(SOURCE)
        hosts = cloud.cell(self.server.cell or next(iter(cloud.cells))).hosts
        await hosts.set_service(SOURCE, enabled=True, disabled_reason=None, forced_down=False)
        with suppress(WorldError):  # it is repeated in the next round
            await clear_returned_sources(cloud, engine)


_SCENES: dict[Evacuating, tuple[World, Server]] = {}


async def _scene(story: Evacuating) -> tuple[World, Server]:
    cells = {"c1": ("h1",), "c2": ("h2", "h3")} if story.crosses else {"c1": ("h1", "h2", "h3")}
    fenced = story.death == "cut off, has a fence"
    rules = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, pci_alias=(GPU,), accept_forced_down=not fenced)
    rules = with_(rules, az_on_move="free") if story.leaves_zone else rules
    equipped = story.devices or story.function or story.boots_from_volume
    world = await World.build(cells=cells, rules=rules, equipped=equipped, functions=story.function, fenced=fenced)
    for host, cell in world.plan.homes() if story.alias else ():
        await world.cloud.cell(cell).devices.register(host, GPUS)
    if story.leaves_zone:
        await _in_another_zone(world, [host for host, _ in world.plan.homes() if host != SOURCE])
    engine = world.engine("setup")
    server = with_(world.new_server("s"), flavor=story.flavor)
    server = with_devices(server) if story.devices else server
    server = with_a_function(server) if story.function else server
    server = with_a_boot_volume(server) if story.boots_from_volume else server
    server = await bound(world, server) if story.bound else server
    await create.accept(world.cloud, engine, world.requester(), [server], SOURCE)
    await world.settle(engine)
    if story.was == "stopped":
        await power.stop(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
        await world.settle(engine)
    if story.was == "error":
        await edit.reset_state(world.cloud, world.requester(), await lookup.find(world.cloud, server.id), "error")
    await _die(world, story)
    return world, await lookup.find(world.cloud, server.id)


async def _in_another_zone(world: World, hosts: list[HostName]) -> None:
    cloud = world.cloud
    await cloud.zones.ensure(NORTH)
    aggregate = await cloud.aggregates.create("north", cloud.ids.uuid(), {"availability_zone": NORTH.id}, 1.0)
    for host in hosts:
        await cloud.aggregates.add_host(aggregate.id, host, 1.0)


async def _die(world: World, story: Evacuating) -> None:
    if story.death in ("cut off", "cut off, has a fence"):
        world.disconnect(SOURCE)  # its guests run on, until the fence device cuts the power
    else:
        await world.lose_host(SOURCE)
    if story.death == "power cut, agent alive":
        world.reconnect(SOURCE)
    [cell] = [cell for host, cell in world.plan.homes() if host == SOURCE]
    hosts = world.cloud.cell(cell).hosts
    await hosts.set_service(SOURCE, enabled=True, disabled_reason=None, forced_down=True)


async def expected_after(result: Result, story: Evacuating) -> dict[str, Any]:
    """Return the expected accounting of an evacuation that arrived, computed from the initial state, not observed."""
    world, server = result.world, result.server
    [run] = await world.cloud.journal.find(RunFilter(subject=server.id, sagas=("evacuate",), limit=1))
    facts = run.facts
    assert isinstance(facts, EvacuationFacts)
    assert facts.target
    target, before = facts.target, result.before
    runs = starts(facts)
    power, vm_state = ("running", "active") if runs else ("stopped", "stopped")
    moved = with_(
        server,
        generation=0,
        updated_at=0.0,
        vm_state=vm_state,
        fault=None,
        cell=target.cell,
        host=target.host,
        zone=target.zone,
        slot=run.id,
        launched_at=(await lookup.find(world.cloud, server.id)).launched_at,
        volumes=tuple(with_(volume, attachment_id="", host=target.host) for volume in server.volumes),
    )
    flavor = server.flavor
    guest = (target.host, server.id, run.id, power, flavor.vcpus, flavor.memory_mib, True)
    marker = f"{server.id} on {target.host}" if runs else ""
    sizes = {"ephemeral": flavor.ephemeral_gib << 30, "swap": flavor.swap_mib << 20}
    stale, stale_disks = ([], []) if story.returns else (before["guests"], before["disks"])
    return {
        **before,
        "servers": {server.id: moved},
        "claims": sorted((server.id, provider, tuple(sorted(what.items()))) for provider, what in target.parts.items()),
        "guests": sorted([guest, *stale]),
        "disks": sorted(
            [
                *(
                    (target.host, server.id, run.id, disk, sizes[disk], marker, True)
                    for *_, disk, _, _, _ in before["disks"]
                ),
                *stale_disks,
            ]
        ),
        "ports": [_bound_at(target, port, story.leaves_zone) for port in before["ports"]],
        "attachments": sorted((who, volume, target.host, status) for who, volume, _, status in before["attachments"]),
        "pci": [(target.host, one, who, request) for _, one, who, request in before["pci"]],
        "records": [(target.cell, server.id, "whole", None)],
    }


def _bound_at(target: Any, port: tuple[Any, ...], leaves_zone: bool) -> tuple[Any, ...]:
    port_id, device, owner, _host, profile, bindings = port
    if not device:
        return port
    owner = f"compute:{NORTH.name}" if leaves_zone else owner
    now = dict(profile) | ({"allocation": dict(target.served)} if "allocation" in profile else {})
    return port_id, device, owner, target.host, now, bindings


async def expected_unless_evacuated(result: Result) -> dict[str, Any]:
    """Return the books from before of a server that was not evacuated, once a round saw that its guest is off.

    A guest whose host was fenced for the evacuation is stopped.
    """
    runs = await result.world.cloud.journal.find(RunFilter(sagas=("follow_power",)))
    off = {run.subject for run in runs if run.state == "done"}
    servers = result.before["servers"]
    fenced = {host for host, switch in result.world.fences.by_host.items() if switch.cuts}
    return {
        **result.before,
        "guests": [
            (host, server, slot, "stopped" if host in fenced else power, *rest)
            for host, server, slot, power, *rest in result.before["guests"]
        ],
        "servers": {each: with_(one, vm_state="stopped") if each in off else one for each, one in servers.items()},
    }
