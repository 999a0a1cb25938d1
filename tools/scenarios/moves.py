"""Stories of moves: initial state, requests of the owner, and the result without faults."""

from dataclasses import dataclass
from typing import Any, Literal

from msgspec.structs import replace as with_

from tools.scenarios.bound import bound
from tools.scenarios.incarnations import Incarnations, Result, watched
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.domain.maintenance_plan import MaintenanceOptions
from whimbrel.domain.pci import ALIAS, PciDevice
from whimbrel.domain.server import Server
from whimbrel.maintenance import operator_requests
from whimbrel.maintenance.execution import carry_on_all
from whimbrel.moves import live_requests, requests
from whimbrel.moves.facts import Location, moves_of, target_of
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import SagaRegistry
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create, power
from whimbrel.sim.checks.invariants import Invariants, Violation
from whimbrel.sim.cloud.cloud import LARGE, SMALL, World
from whimbrel.sim.faults.chaos import Plan
from whimbrel.sim.world.equipment import FUNCTIONS, GPU, GPUS, with_a_boot_volume, with_a_function, with_devices
from whimbrel.sim.world.phases import Times

WIDE = with_(SMALL, flavor_id="3", name="wide", vcpus=2)

LIVE_MIB_S = 300.0
"""The speed of slow live transfers: with a root disk of 1 GiB they take 5 s."""

BUSY = 2**40
"""Bytes per second that the guest of an aborted live migration writes: no transfer of it ends."""

GIVES_UP = {"deadline_s": 1.0, "ladder": ["abort"]}

End = Literal["confirm", "revert", "turn back"]


@dataclass(frozen=True)
class Story:
    """A move, and its result without faults."""

    name: str
    end: End
    same_host: bool = False
    stopped: bool = False
    flavor: bool = True  # resize; else cold migration
    host: str | None = None  # named by an administrator
    devices: bool = False  # with ports, bandwidth and volumes
    function: bool = False  # with a port that has a virtual function of its host
    alias: bool = False  # with flavors that request devices of its host, the larger one more than the other
    movable: bool = False  # `alias`, and the devices can be moved live; on other hosts all but the first one
    crosses: bool = False  # to another cell
    boots_from_volume: bool = False
    shrinks: bool = False  # to fewer cpus, else to more of everything
    local_disks: bool = False  # with flavors that have an ephemeral and a swap disk
    bound: bool = False  # in a server group, and pinned to its zone
    live: bool = False  # a live migration; it ends by itself: at the target, else aborted by its policy
    paused: bool = False  # the guest is paused before
    slow: bool = False  # the transfer takes a while
    maintained: bool = False  # begun, and confirmed, by a maintenance of its host
    list_version: int | None = None  # of an earlier release; None: the newest

    def __str__(self) -> str:
        return self.name

    @property
    def old_flavor(self) -> Flavor:
        flavor = WIDE if self.shrinks else SMALL
        if self.local_disks:
            return with_(flavor, ephemeral_gib=1, swap_mib=512)
        return with_(flavor, extra_specs={ALIAS: f"{GPU.name}:1"}) if self.alias else flavor

    @property
    def resizes(self) -> bool:
        return self.flavor and not self.live

    @property
    def new_flavor(self) -> Flavor:
        flavor = SMALL if self.shrinks else LARGE
        if self.local_disks:
            return with_(flavor, ephemeral_gib=2, swap_mib=1024)
        return with_(flavor, extra_specs={ALIAS: f"{GPU.name}:2"}) if self.alias else flavor


class Trial(Incarnations):
    """Runs the story of one move."""

    def __init__(self, story: Story, *plans: Plan) -> None:
        super().__init__(*plans)
        self._story = story

    async def set_the_scene(self) -> None:
        if self._story not in _SCENES:
            _SCENES[self._story] = await _scene(self._story)
        scene, self.server = _SCENES[self._story]
        self.world = await scene.copy()
        self.world.registry = watched(self._book(), self.world)
        if self._story.live and self._story.end != "confirm":
            self.world.simulated.dirty_rates[self.server.id] = BUSY
        self._invariants = Invariants(self.world)

    def _book(self) -> SagaRegistry:
        version = self._story.list_version
        return SagaRegistry(*(saga for saga in SAGAS if version in (None, saga.version) or saga.name not in MOVE_SAGAS))

    def _named_host(self) -> HostName | None:
        return HostName(self._story.host) if self._story.host else None

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        if self._story.maintained:
            await carry_on_all(cloud, engine)
            await self._drive(cloud, engine)
            return
        server = await lookup.find(cloud, self.server.id)
        requester = self.world.requester()
        if self._story.live:
            await live_requests.migrate_live(
                cloud,
                engine,
                requester,
                server,
                self._named_host(),
                leaves_cell=self._story.crosses,
                policy=None if self._story.end == "confirm" else GIVES_UP,
            )
        elif self._story.flavor:
            await requests.resize(
                cloud, engine, requester, server, self._story.new_flavor, leaves_cell=self._story.crosses
            )
        else:
            host = self._named_host()
            await requests.migrate(cloud, engine, requester, server, host, leaves_cell=self._story.crosses)
        await self._drive(cloud, engine)

    async def say(self, cloud: Cloud, engine: Engine) -> None:
        if self._story.maintained:
            await carry_on_all(cloud, engine)
            await self._drive(cloud, engine)
            return
        run = await self.world.cloud.journal.open_run(self.server.id)
        if run is None or run.state != "parked":
            return  # it failed before its owner could give a verdict
        server = await lookup.find(cloud, self.server.id)
        if self._story.end == "turn back":
            await requests.turn_back(cloud, engine, run.id)
        else:
            say = requests.confirm if self._story.end == "confirm" else requests.revert
            await say(cloud, engine, self.world.requester(), server)
        await self._drive(cloud, engine)

    async def end_maintenance(self) -> None:
        """Do rounds until the maintenance is over or paused. Raises: Violation: it says something else than is true."""
        stores = self.world.cloud
        for _ in range(MOST_ROUNDS):
            [found] = await stores.maintenances.find()
            if found.state != "running":
                break
            await self._live(carry_on_all)
            await self.settle()
            await stores.clock.sleep(2.0)
        [item] = await stores.maintenances.items(found.id)
        [host] = await operator_requests.hosts_named(stores, ["h1"])
        runs = await stores.journal.find(RunFilter(subject=self.server.id, sagas=MOVES_OF_MAINTENANCES))
        arrived = [run.id for run in runs if run.state == "done"]
        has_moved = (found.state, item.state, arrived) == ("done", "moved", [item.run_id])
        has_failed = found.state in ("done", "paused") and (item.state, arrived) == ("failed", []) and item.reason
        if host.enabled or not (has_moved or has_failed):
            raise Violation(f"the maintenance is {found.state}, its item {item}; moves that arrived: {arrived}")


MOVES_OF_MAINTENANCES = ("live_migrate", "migrate")
MOST_ROUNDS = 40

_SCENES: dict[Story, tuple[World, Server]] = {}
"""Initial world of each story: made once, and copied for each run."""


async def _scene(story: Story) -> tuple[World, Server]:
    """Make a cloud with one server on its first host. Failed attempts on a single host show in the accounting."""
    hosts = ("h1",) if story.same_host or story.crosses else ("h1", "h2", "h3")
    cells = {"c1": hosts, "c2": ("h2", "h3")} if story.crosses else {"c1": hosts}
    same_host = story.same_host
    rules = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, allow_resize_to_same_host=same_host, pci_alias=(GPU,))
    equipped = story.devices or story.function or story.boots_from_volume
    slow = story.slow or (story.live and story.end != "confirm")
    times = Times(live_mib_s=LIVE_MIB_S if slow else 0.0)
    world = await World.build(cells=cells, rules=rules, equipped=equipped, functions=story.function, times=times)
    for cell in world.cloud.cells if story.live else ():
        await world.cloud.cell_infos.ensure(CellInfo(name=cell, migration_network="m", created_at=0.0))
    for host, cell in world.plan.homes() if story.alias else ():
        await world.cloud.cell(cell).devices.register(host, _movable(host) if story.movable else GPUS)
    engine = world.engine("setup")
    server = with_(world.new_server("s"), flavor=story.old_flavor)
    if story.devices:
        server = with_devices(server)
    if story.function:
        server = with_a_function(server)
    if story.boots_from_volume:
        server = with_a_boot_volume(server)
    if story.bound:
        server = await bound(world, server)
    await create.accept(world.cloud, engine, world.requester(), [server], HostName("h1"))
    await world.settle(engine)
    if story.stopped:
        await power.stop(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
        await world.settle(engine)
    if story.paused:
        await _pause(world, server.id)
    if story.maintained:
        await _maintain(world)
    return world, await lookup.find(world.cloud, server.id)


async def _maintain(world: World) -> None:
    """Plan a maintenance of the first host, and start it. Its first round, which disables the host, is yet to come."""
    hosts = await operator_requests.hosts_named(world.cloud, ["h1"])
    options = MaintenanceOptions()
    found = await operator_requests.plan(world.cloud, world.requester(), "disks", "host h1", hosts, options)
    await operator_requests.start(world.cloud, found.id)


def _movable(host: HostName) -> list[PciDevice]:
    return [with_(one, live_migratable=host == "h1" or one != GPUS[0]) for one in GPUS]


async def _pause(world: World, server_id: ServerId) -> None:
    server = await lookup.find(world.cloud, server_id)
    assert server.cell
    assert server.host
    assert server.slot
    await world.hypervisors[server.host].pause(GuestKey(server.id, Slot(server.slot)))
    await world.cloud.cell(server.cell).servers.change(server, {"vm_state": "paused"})


async def expected_after(result: Result, story: Story) -> dict[str, Any]:
    """Return the expected accounting of a story, computed from the initial state, not observed."""
    world, server = result.world, result.server
    found = await world.cloud.journal.find(
        RunFilter(subject=server.id, sagas=("resize", "migrate", "live_migrate"), limit=1)
    )
    [move] = moves_of(found)
    target = target_of(move)
    flavor = story.new_flavor if story.resizes else server.flavor
    now = (await lookup.find(world.cloud, server.id)).launched_at
    moved = with_(
        server,
        generation=0,
        updated_at=0.0,
        cell=target.cell,
        host=target.host,
        zone=target.zone,
        slot=move.id,
        flavor=flavor,
        launched_at=now,
        volumes=tuple(with_(volume, attachment_id="", host=target.host) for volume in server.volumes),
    )
    before = result.before
    power = "stopped" if story.stopped else "paused" if story.paused else "running"
    return {
        **before,
        "servers": {server.id: moved},
        "claims": sorted((server.id, provider, tuple(sorted(what.items()))) for provider, what in target.parts.items()),
        "guests": [(target.host, server.id, move.id, power, flavor.vcpus, flavor.memory_mib, True)],
        "offers": [],
        "disks": _transferred(target, before["disks"])
        if story.live
        else _carried_to(target, before["disks"], flavor, is_running=not story.stopped),
        "quota": {server.id: (flavor.vcpus, flavor.memory_mib)},
        "ports": [_bound_at(target, port) for port in before["ports"]],
        "attachments": sorted((who, volume, target.host, status) for who, volume, _, status in before["attachments"]),
        "pci": _held_at(target, story, before["pci"]),
        "records": [(target.cell, server.id, "whole", None)],
    }


def _bound_at(target: Location, port: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a port's accounting line after the move to the target."""
    port_id, device, owner, host, profile, bindings = port
    if not device:
        return port  # the port is free
    now = dict(profile)
    if "allocation" in profile:
        now["allocation"] = dict(target.served)
    if "pci_slot" in profile:
        now["pci_slot"] = _function_at(target, host, profile["pci_slot"])
    return port_id, device, owner, target.host, now, bindings


def _transferred(target: Location, disks: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the disks besides the root disk after a live migration: nothing of them is made anew."""
    return [(target.host, server, target.slot, *rest) for _host, server, _slot, *rest in disks]


def _carried_to(
    target: Location, disks: list[tuple[Any, ...]], flavor: Flavor, *, is_running: bool
) -> list[tuple[Any, ...]]:
    """Return the disks besides the root disk: ephemeral disks keep their contents, swap is new."""
    new = {"ephemeral": flavor.ephemeral_gib << 30, "swap": flavor.swap_mib << 20}
    return [
        (target.host, server, target.slot, name, new[name], _marker(target, server, name, marker, is_running), True)
        for _host, server, _slot, name, _size, marker, _whole in disks
    ]


def _marker(target: Location, server: str, name: str, marker: str, is_running: bool) -> str:
    if name == "ephemeral":
        return marker
    return f"{server} on {target.host}" if is_running else ""


def _held_at(target: Location, story: Story, held: list[tuple[str, str, str, str]]) -> list[tuple[str, str, str, str]]:
    """Return the devices that the server holds at the target: for an alias, the first free ones."""
    if not story.alias:
        return [(target.host, _function_at(target, host, one), who, request) for host, one, who, request in held]
    [(source, taken, who, request)] = held
    if story.movable:
        return [(target.host, GPUS[1].address, who, request)]
    free = [one.address for one in GPUS if (source, taken) != (target.host, one.address)]
    return [(target.host, one, who, request) for one in free[: 2 if story.resizes else 1]]


def _function_at(target: Location, host: str, address: str) -> str:
    """Return the virtual function at the target: hosts are equal; on the same host it is the other one of its NIC."""
    if target.host != host:
        return address
    [card] = [one.parent_ifname for one in FUNCTIONS if one.address == address]
    [other] = [one.address for one in FUNCTIONS if one.parent_ifname == card and one.address != address]
    return other
