"""Scenarios of a server other than its moves: initial state, request of the owner, permitted results."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace as with_

from tests.stories.image_books import images_are_whole, without_images
from tools.scenarios.bound import bound
from tools.scenarios.incarnations import Incarnations, Result, watched
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import NotFound, WorldError
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.domain.pci import DIRECT
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.moves.steps.pci_devices import in_profile
from whimbrel.ports.cloud import Cloud, Requester, Rules
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.directory import Usage
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.saga.engine import Engine
from whimbrel.servers import edit, lookup
from whimbrel.servers.lifecycle import create, delete, power
from whimbrel.sim.checks.invariants import Invariants, books
from whimbrel.sim.cloud.cloud import LARGE, PROJECT, SMALL, World
from whimbrel.sim.faults.chaos import Plan
from whimbrel.sim.world.equipment import (
    DIRECT_PORT,
    FUNCTIONS,
    PORT,
    VOLUME,
    with_a_boot_volume,
    with_a_function,
    with_devices,
)

HOSTS = ("h1", "h2", "h3")
HUGE = Flavor(flavor_id="9", name="huge", vcpus=8, memory_mib=512, root_gib=1)
RULES = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0)

FUNCTION = FUNCTIONS[1]
"""The first virtual function of each host whose card has bandwidth enough."""

Ask = Callable[[Cloud, Engine, Requester, Server], Awaitable[Any]]
"""What an owner asks for."""

Set = Callable[[World, Server], Awaitable[None]]
"""What is done before a scenario begins."""

Books = dict[str, Any]
Meant = Callable[[Result], Awaitable[Books]]
"""The books of a scenario that ended as it was meant to: worked out from what was before, not observed."""


@dataclass(frozen=True)
class Scenario:
    name: str
    ask: Ask
    meant: Meant
    scene: tuple[Set, ...] = ()
    refusing: tuple[tuple[str, str], ...] = ()  # hosts that refuse, each with the phase
    refused: Meant | None = None  # how it ends where the answer is no; else as before
    insists: bool = False  # it is asked for again, and ends as it is meant to
    new: bool = False  # the server is not there yet
    flavor: Flavor = SMALL
    devices: bool = False  # with ports, bandwidth and volumes
    function: bool = False  # with a port that has a virtual function of its host, instead of other ports
    on_volume: bool = False  # it boots from the volume
    bound: bool = False  # in a server group, and pinned to its zone
    two_cells: bool = False  # the last host is in a cell of its own
    rules: Rules = RULES

    def __str__(self) -> str:
        return self.name


class Lifecycle(Incarnations):
    """Runs one scenario."""

    def __init__(self, scenario: Scenario, *plans: Plan) -> None:
        super().__init__(*plans)
        self._scenario = scenario
        self.asked: list[str] = []  # the touches of what its owner asked for first
        self.acts: list[str] = []  # the same, with what came of it

    async def set_the_scene(self) -> None:
        told = self._scenario
        begins = told.name, told.scene, told.devices, told.function, told.on_volume
        if begins not in _SCENES:
            _SCENES[begins] = await _scene(self._scenario)
        scene, self.server = _SCENES[begins]
        self.world = await scene.copy()
        for host, phase in self._scenario.refusing:
            self.world.hypervisors[HostName(host)].refusing.add(phase)
        self.world.registry = watched(SAGAS, self.world)
        self._invariants = Invariants(self.world)

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        server = self.server if self._scenario.new else await lookup.find(cloud, self.server.id)
        await self._scenario.ask(cloud, engine, self.world.requester(), server)
        await self._drive(cloud, engine)
        self.asked = self.asked or self.incarnations[0].touches[:]

    async def _finish(self) -> None:
        """Do what is due, what conductors look after once a second, and what comes of that."""
        _, cloud, engine = self._present
        await self.world.settle(engine)
        with suppress(WorldError):  # it is logged, and done in the next second
            await reconcile(cloud, engine)
        await self.world.settle(engine)

    async def end(self) -> None:
        self.acts = self.acts or self.incarnations[0].touches[:]
        is_struck = self._scenario.insists
        while is_struck:  # who insists asks again until nothing came between
            fired = self._fired()
            await self._live(self.move)
            await self.settle()
            is_struck = self._fired() > fired
        await self._invariants.check()

    def _fired(self) -> int:
        return sum(len(chaos.fired) for chaos in self.incarnations)


_SCENES: dict[tuple[str, tuple[Set, ...], bool, bool, bool], tuple[World, Server]] = {}


async def _scene(scenario: Scenario) -> tuple[World, Server]:
    equipped = scenario.devices or scenario.function
    cells = {"c1": HOSTS[:2], "c2": HOSTS[2:]} if scenario.two_cells else None
    world = await World.build(HOSTS, cells, rules=scenario.rules, equipped=equipped, functions=scenario.function)
    for cell in cells or ():
        await world.cloud.cell_infos.ensure(CellInfo(name=CellName(cell), migration_network="m", created_at=0.0))
    server = world.new_server("s", scenario.flavor)
    if equipped:
        server = with_devices(server) if scenario.devices else server
        server = with_a_function(server) if scenario.function else server
        server = with_a_boot_volume(server) if scenario.on_volume else server
    if scenario.bound:
        server = await bound(world, server)
    if not scenario.new:
        await born(world, server)
    for act in scenario.scene:
        await act(world, server)
    return world, server if scenario.new else await lookup.find(world.cloud, server.id)


# Before a scenario


async def born(world: World, server: Server) -> None:
    """Create a server that runs on h1."""
    engine = world.engine("setup")
    await create.accept(world.cloud, engine, world.requester(), [server], HostName("h1"))
    await world.settle(engine)


async def asked_for(world: World, server: Server) -> None:
    """Make one whose building was accepted, no more."""
    await create.accept(world.cloud, world.engine("setup"), world.requester(), [server])


async def stopped(world: World, server: Server) -> None:
    engine = world.engine("setup")
    await power.stop(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)


async def resized(world: World, server: Server) -> None:
    """Make it wait for its owner's verdict."""
    engine = world.engine("setup")
    await requests.resize(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id), LARGE)
    await world.settle(engine)
    assert (await lookup.find(world.cloud, server.id)).vm_state == "resized"


async def said_to_be_broken(world: World, server: Server) -> None:
    await edit.reset_state(world.cloud, world.requester(), await lookup.find(world.cloud, server.id), "error")


async def found_no_host(world: World, server: Server) -> None:
    """Create a server that no host could take, instead of the one that runs."""
    engine = world.engine("setup")
    await delete.accept(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)
    server.id = ServerId(world.cloud.ids.uuid())
    await create.accept(world.cloud, engine, world.requester(), [with_(server, flavor=HUGE)])
    await world.settle(engine)
    assert (await lookup.find(world.cloud, server.id)).vm_state == "error"


# How it may end


class NotSo(Exception):
    """It cannot have ended like that."""


async def the_run(result: Result, saga: str) -> Run:
    """Return the newest run of a saga. Raises: NotSo: there is none."""
    runs = await result.world.cloud.journal.find(RunFilter(subject=result.server.id, sagas=[saga], limit=1))
    if not runs:
        raise NotSo(f"nobody began to {saga}")
    return runs[0]


async def running_on_its_target(result: Result) -> Books:
    """A created server: where its run says, and nothing anywhere else."""
    run = await the_run(result, "create")
    if run.facts.target is None:
        raise NotSo("it has no target")
    target = run.facts.target
    server = with_(
        result.server,
        updated_at=0.0,
        vm_state="active",
        cell=target.cell,
        host=target.host,
        zone=target.zone,
        slot=run.id,
        launched_at=(await lookup.find(result.world.cloud, result.server.id)).launched_at,
        nics=tuple(port.nic for port in run.facts.ports),
        volumes=tuple(with_(device, attachment_id="") for device in run.facts.volumes),
    )
    flavor = server.flavor
    claimed = target.parts.items()
    return {
        **result.before,
        "servers": {server.id: server},
        "records": [(target.cell, server.id, "whole", None)],
        "claims": sorted((server.id, provider, tuple(sorted(what.items()))) for provider, what in claimed),
        "ports": sorted([*_ports_at(run), *(port for port in result.before["ports"] if not _has(run, port[0]))]),
        "pci": [
            (target.host, FUNCTION.address, server.id, one) for one, vnic_type in _vnics(run) if vnic_type == DIRECT
        ],
        "attachments": sorted((server.id, one.volume_id, target.host, "attached") for one in server.volumes),
        "volumes": sorted({*result.before["volumes"], *(one.volume_id for one in server.volumes)}),
        "guests": [(target.host, server.id, run.id, "running", flavor.vcpus, flavor.memory_mib, True)],
        "quota": {server.id: (flavor.vcpus, flavor.memory_mib)},
    }


def _ports_at(run: Run) -> list[tuple[Any, ...]]:
    """Return the ports of a created server as the books have them: each bound to its host, and served there."""
    target, facts = run.facts.target, run.facts
    lines = []
    for port, requested in zip(facts.ports, facts.requested_nics, strict=True):
        profile: dict[str, Any] = {"allocation": dict(target.served)} if port.requests else {}
        profile |= in_profile(FUNCTION) if port.nic.vnic_type == DIRECT else {}
        assert (port.nic.port_id == requested.port_id) is (requested.port_id is not None)
        lines.append((port.nic.port_id, run.subject, f"compute:{target.zone}", target.host, profile, 1))
    return sorted(lines)


def _has(run: Run, port_id: str) -> bool:
    return any(one == port_id for one, _ in _vnics(run))


def _vnics(run: Run) -> list[tuple[str, str]]:
    return [(port.nic.port_id, port.nic.vnic_type) for port in run.facts.ports]


async def in_error(result: Result) -> Books:
    """A server that could not be built: it lives nowhere, says why, counts in the quota, and holds nothing."""
    run = await the_run(result, "create")
    record = await lookup.find(result.world.cloud, result.server.id)
    assert record.fault, "no reason is given"
    assert record.fault["message"] == run.message
    return {
        **result.before,
        "servers": {result.server.id: with_(result.server, updated_at=0.0, vm_state="error", fault=record.fault)},
        "quota": {result.server.id: (result.server.flavor.vcpus, result.server.flavor.memory_mib)},
    }


async def gone(result: Result) -> Books:
    return {**{key: type(held)() for key, held in result.before.items()}, **_ownerless(result.world)}


def _ownerless(world: World) -> Books:
    """Return what is there without any server: its owner's port and volume, held by nobody."""
    if not world.plan.equipped:
        return {}
    ports = (PORT, DIRECT_PORT) if world.plan.functions else (PORT,)
    return {"ports": [(port, "", "", "", {}, 0) for port in ports], "volumes": [VOLUME]}


def in_state(vm_state: str, power_now: str) -> Meant:
    """Where it was, in this state."""

    async def meant(result: Result) -> Books:
        [(host, server, slot, _, *sizes)] = result.before["guests"]
        return {
            **result.before,
            "servers": {server: with_(result.before["servers"][server], vm_state=vm_state)},
            "guests": [(host, server, slot, power_now, *sizes)],
        }

    return meant


async def as_before(result: Result) -> Books:
    return result.before


async def waiting_for_a_verdict(result: Result) -> Books:
    """A resized server: its move owns what it has on the source, its old guest is off and kept."""
    run = await the_run(result, "resize")
    source, target, flavor = run.facts.source, run.facts.target, run.facts.new_flavor
    [(host, server, slot, _, *sizes)] = result.before["guests"]
    record = with_(
        result.before["servers"][server],
        vm_state="resized",
        host=target.host,
        zone=target.zone,
        slot=run.id,
        flavor=flavor,
        launched_at=(await lookup.find(result.world.cloud, server)).launched_at,
    )
    claims = ((server, target, flavor), (run.id, source, run.facts.old_flavor))
    return {
        **result.before,
        "servers": {server: record},
        "records": [(target.cell, server, "whole", run.id)],
        "claims": sorted((who, at.provider, tuple(sorted(what.resources().items()))) for who, at, what in claims),
        "guests": sorted(
            [
                (host, server, slot, "stopped", *sizes),
                (target.host, server, run.id, "running", flavor.vcpus, flavor.memory_mib, True),
            ]
        ),
        "quota": {server: (flavor.vcpus, flavor.memory_mib)},
    }


async def confirmed(result: Result) -> Books:
    """A resized server whose old guest and claim are gone."""
    run = await the_run(result, "resize")
    new = run.facts.target
    record = result.before["servers"][result.server.id]
    return {
        **result.before,
        "servers": {result.server.id: with_(record, vm_state="active")},
        "records": [(new.cell, result.server.id, "whole", None)],
        "claims": [claim for claim in result.before["claims"] if claim[1] == new.provider],
        "guests": [guest for guest in result.before["guests"] if guest[0] == new.host],
    }


async def check(result: Result, scenario: Scenario, *, may_be_nothing: bool = True, refused: bool = False) -> None:
    """See that it ended as it was meant to, or as if it had never begun; then delete it, and see that nothing is left.

    may_be_nothing: whether it may be as before; what its owner asks for again and again may not.
    """
    after = without_images(await books(result.world))
    if not (may_be_nothing and not scenario.insists and after == without_images(result.before)):
        wanted = without_images(await _meant(result, scenario, refused))
        assert after == wanted, "\n".join(
            f"{key} should be {wanted[key]}\nand is {after[key]}" for key in wanted if after[key] != wanted[key]
        )
    await images_are_whole(result)
    await delete_and_see_nothing(result.world, result.server.id)
    await result.world.close()


async def _meant(result: Result, scenario: Scenario, refused: bool) -> Books:
    if (refused or scenario.refusing) and scenario.refused:
        [run] = await result.world.cloud.journal.find(RunFilter(subject=result.server.id, limit=1))
        if run.state == "undone":
            assert run.turned == "refused"
            return await scenario.refused(result)
    return await scenario.meant(result)


async def delete_and_see_nothing(world: World, server_id: ServerId) -> None:
    cloud, engine = world.cloud, world.engine("afterwards")
    for hypervisor in world.hypervisors.values():
        hypervisor.refusing.clear()
    try:
        await delete.accept(cloud, engine, world.requester(), await lookup.find(cloud, server_id))
    except NotFound:
        pass
    else:
        for _ in range(3):
            await world.settle(engine)
            await reconcile(cloud, engine)
    left = without_images(await books(world))
    there = _ownerless(world)
    with_snapshots = {one.volume_id for one in world.remains.volumes.snapshots()}
    there["volumes"] = sorted({*there.get("volumes", ()), *with_snapshots})  # those cannot be deleted
    assert all(value == there.get(name, type(value)()) for name, value in left.items()), left
    assert await cloud.directory.usage(PROJECT) == Usage()
    entry = (await cloud.directory.entries([server_id])).get(server_id)
    if entry and entry.cell:
        assert (await cloud.cell(entry.cell).servers.get(server_id)).vm_state == "deleted"
    await Invariants(world).check()
