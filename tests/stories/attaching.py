"""Scenarios that attach and detach interfaces and volumes: initial state, request, permitted results."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace as with_

from tests.stories.lifecycle import HOSTS, RULES, Ask, Set, resized, stopped
from tests.stories.shelving import shelved
from tools.scenarios.incarnations import Incarnations, Result, release_late_effects, watched
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import WorldError, WrongState
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice, RequestedNic
from whimbrel.domain.volume_merge import Merge
from whimbrel.moves import requests
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.network import Port, PortRequest
from whimbrel.ports.services.volumes import Volume
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.cleanup.late_effects import clean_up_waiting
from whimbrel.servers.devices import (
    file_snapshots,
    interfaces,
    volume_changes,
    volume_extensions,
    volume_swaps,
    volumes,
)
from whimbrel.servers.lifecycle import create, delete
from whimbrel.sim.checks.invariants import Invariants, Violation, books
from whimbrel.sim.cloud.cloud import PROJECT, World
from whimbrel.sim.faults.chaos import Plan
from whimbrel.sim.world import equipment
from whimbrel.sim.world.volumes import file_of

FREE_PORT = "66666666-6666-4666-8666-666666666667"
WIDE_PORT, WIDE = "66666666-6666-4666-8666-666666666668", "88888888-8888-4888-8888-888888888889"
FREE_VOLUME = "77777777-7777-4777-8777-777777777778"
TARGET = "77777777-7777-4777-8777-777777777779"
"""The volume to which the service migrates the server's."""
SNAPSHOT = "77777777-7777-4777-8777-777777777780"
EXTENDED_GIB = 7
"""To what the volume is extended."""
Books = dict[str, Any]
Meant = Callable[[Result, Run], Books]
Seen = Callable[[Result, Sequence[Run]], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    name: str
    saga: str
    ask: Ask
    meant: Meant
    scene: tuple[Set, ...] = ()
    seen: Seen | None = None  # what besides the books has to be

    def __str__(self) -> str:
        return self.name


# What is asked for


def attach(*, at_once: bool, volume: str = FREE_VOLUME) -> Ask:
    async def ask(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
        device = BlockDevice(
            id="bdm", volume_id=volume, attachment_id="", host=server.host or "", device=volumes.free_name(server)
        )
        await volumes.attach(cloud, engine, requester, server, device, at_once=at_once)

    return ask


async def detach(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    device = next(device for device in server.volumes if device.volume_id == equipment.VOLUME)
    await volumes.detach(cloud, engine, requester, server, device)


async def change(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    device = _device(server)
    await volume_changes.in_turn(cloud, engine, requester, server, device, not device.delete_on_termination)


async def extend(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await volume_extensions.extend(cloud, engine, requester, server, _device(server))


async def swap(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    device = next(device for device in server.volumes if device.volume_id == equipment.VOLUME)
    await volume_swaps.swap(cloud, engine, requester, server, device, TARGET)


async def take_snapshot(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await _take(cloud, engine, requester, server, file_of(equipment.VOLUME, SNAPSHOT))


async def _take(cloud: Cloud, engine: Engine, requester: Requester, server: Server, file: str) -> None:
    await file_snapshots.take(cloud, engine, requester, server, _device(server), SNAPSHOT, file)


async def merge_files(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await file_snapshots.merge(cloud, engine, requester, server, _device(server), SNAPSHOT, Merge())


def _device(server: Server) -> BlockDevice:
    return next(device for device in server.volumes if device.volume_id == equipment.VOLUME)


def plug(requested: RequestedNic) -> Ask:
    async def ask(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
        await interfaces.attach(cloud, engine, requester, server, requested)

    return ask


def unplug(*, ours: bool) -> Ask:
    async def ask(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
        nic = next(nic for nic in server.nics if nic.is_ours == ours)
        await interfaces.detach(cloud, engine, requester, server, nic.port_id)

    return ask


async def give_back(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    move = await cloud.journal.open_run(server.id)
    if not (move and await clean_up_waiting(cloud, engine, requester, move)):
        raise WrongState("none of its ports is cut off")


# What is done before


async def misbound(world: World, server: Server) -> None:
    """Make a port of it be active at the host from which it was moved, as was asked for on an earlier way back."""
    await world.remains.network.activate_binding(equipment.PORT, HostName("h1"))


async def extended(world: World, server: Server) -> None:
    """Make the volume of it larger at the volume service."""
    world.remains.volumes.extend(equipment.VOLUME, EXTENDED_GIB)


async def migrating(world: World, server: Server) -> None:
    """Make the volume service migrate its volume, and wait for the swap."""
    world.remains.volumes.begin_migration(equipment.VOLUME, TARGET)


async def migrated(world: World, server: Server) -> None:
    """Let the volume service have migrated its volume."""
    await migrating(world, server)
    engine, record = world.engine("swap"), await lookup.find(world.cloud, server.id)
    await swap(world.cloud, engine, world.requester(), record)
    await world.settle(engine)


async def snapshotting(world: World, server: Server) -> None:
    """Make the volume service begin a snapshot of its volume, and wait for the host."""
    world.remains.volumes.begin_snapshot(SNAPSHOT, equipment.VOLUME)


async def unsnapshotting(world: World, server: Server) -> None:
    """Make the volume service begin to delete such a snapshot."""
    await snapshotting(world, server)
    engine, record = world.engine("snapshot"), await lookup.find(world.cloud, server.id)
    file = world.remains.volumes.file_after(equipment.VOLUME, SNAPSHOT)
    await _take(world.cloud, engine, world.requester(), record, file)
    await world.settle(engine)
    world.remains.volumes.begin_deletion(SNAPSHOT)


# How it is meant to end: worked out from what was before


def attached(result: Result, run: Run) -> Books:
    """A volume of a server on no host stays reserved where the service refuses more."""
    record = result.before["servers"][run.subject]
    device = with_(run.facts.device, attachment_id="")
    is_refused = any(one.startswith("REFUSED") and one.endswith(" volumes.complete") for one in result.fired)
    status = "reserved" if record.host is None and is_refused else "attached"
    return {
        **result.before,
        "servers": {run.subject: with_(record, volumes=(*record.volumes, device))},
        "attachments": sorted(
            [*result.before["attachments"], (run.subject, FREE_VOLUME, record.host, status)],
            key=lambda one: one[:2],
        ),
    }


def detached(result: Result, run: Run) -> Books:
    record = result.before["servers"][run.subject]
    return {
        **result.before,
        "servers": {
            run.subject: with_(
                record, volumes=tuple(one for one in record.volumes if one.volume_id != equipment.VOLUME)
            )
        },
        "attachments": [one for one in result.before["attachments"] if one[1] != equipment.VOLUME],
    }


def changed(result: Result, run: Run) -> Books:
    record = result.before["servers"][run.subject]
    now = tuple(
        with_(one, delete_on_termination=not one.delete_on_termination) if one.volume_id == equipment.VOLUME else one
        for one in record.volumes
    )
    return {**result.before, "servers": {run.subject: with_(record, volumes=now)}}


def unchanged(result: Result, run: Run) -> Books:
    return result.before


async def sees_the_size(result: Result, runs: Sequence[Run]) -> None:
    """See that a live guest knows the new size, if that was done."""
    record = await lookup.find(result.world.cloud, result.server.id)
    host, slot = HostName(record.host or ""), Slot(record.slot or "")
    sizes = await result.world.hypervisors[host].extended(GuestKey(record.id, slot))
    if any(run.state == "done" for run in runs):
        assert sizes == {equipment.VOLUME: EXTENDED_GIB}


def swapped(result: Result, run: Run) -> Books:
    """The volume has its id still, and the service keeps one of the two, whether the migration failed or not."""
    volumes = [one for one in result.before["volumes"] if one != TARGET]
    status = "success" if run.state == "done" else "error"
    return {**result.before, "volumes": volumes, "migrations": {equipment.VOLUME: status}}


async def uses_the_right_one(result: Result, runs: Sequence[Run]) -> None:
    """See that the guest uses the new volume by its record's attachment, or the old one after a failed migration."""
    world, is_done = result.world, any(run.state == "done" for run in runs)
    record = await lookup.find(world.cloud, result.server.id)
    device = next(one for one in record.volumes if one.volume_id == equipment.VOLUME)
    host, slot = HostName(record.host or ""), Slot(record.slot or "")
    has = {one.volume_id: one for one in world.hypervisors[host].volumes_of(GuestKey(record.id, slot))}
    used = has[equipment.VOLUME]
    assert (used.attachment_id, used.device) == (device.attachment_id, device.device)
    assert used.connection["data"]["volume_id"] == (TARGET if is_done else equipment.VOLUME)


def snapshot_taken(result: Result, run: Run) -> Books:
    return {**result.before, "snapshots": [(SNAPSHOT, "available" if run.state == "done" else "error")]}


def files_merged(result: Result, run: Run) -> Books:
    """The service has deleted the snapshot, or says that it could not."""
    return {**result.before, "snapshots": [] if run.state == "done" else [(SNAPSHOT, "error_deleting")]}


async def writes_to_the_right_file(result: Result, runs: Sequence[Run]) -> None:
    """See that the guest writes to the file to which the service connects hosts, and has the files that are left."""
    world = result.world
    record = await lookup.find(world.cloud, result.server.id)
    host, slot = HostName(record.host or ""), Slot(record.slot or "")
    files = await world.hypervisors[host].files_of(GuestKey(record.id, slot), equipment.VOLUME)
    active, kept = world.remains.volumes.active_file(equipment.VOLUME), world.remains.volumes.snapshots()
    assert files[0] == (active or equipment.VOLUME)
    if runs[0].saga == file_snapshots.MERGE_VOLUME_FILES.name:
        assert len(files) == 1 + len(kept)


def plugged(result: Result, run: Run) -> Books:
    record, nic = result.before["servers"][run.subject], run.facts.nic
    claims, profile = result.before["claims"], {}
    if nic.port_id == WIDE_PORT:
        [card] = {provider for _, provider, held in claims if equipment.EGRESS in dict(held)}
        profile = {"allocation": {WIDE: card}}
        twice = tuple((name, 2 * equipment.KBPS) for name in (equipment.EGRESS, equipment.INGRESS))
        claims = [(owner, provider, twice if provider == card else held) for owner, provider, held in claims]
    port = (nic.port_id, run.subject, "compute:nova", record.host, profile, 1)
    return {
        **result.before,
        "claims": claims,
        "servers": {run.subject: with_(record, nics=(*record.nics, nic))},
        "ports": sorted(
            [*(one for one in result.before["ports"] if one[0] != nic.port_id), port], key=lambda one: one[0]
        ),
    }


def unplugged(result: Result, run: Run) -> Books:
    record, nic = result.before["servers"][run.subject], run.facts.nic
    left = [one for one in result.before["ports"] if one[0] != nic.port_id]
    free = [] if nic.is_ours else [(nic.port_id, "", "", "", {}, 0)]
    bandwidth = {equipment.EGRESS, equipment.INGRESS}
    claims = [one for one in result.before["claims"] if not bandwidth & {name for name, _ in one[2]}]
    assert len(claims) == len(result.before["claims"]) - 1
    return {
        **result.before,
        "servers": {run.subject: with_(record, nics=tuple(one for one in record.nics if one != nic))},
        "ports": sorted([*left, *free], key=lambda one: one[0]),
        "claims": result.before["claims"] if nic.is_ours else claims,
    }


def given_back(result: Result, run: Run) -> Books:
    """Its port is active where it is, and served there."""
    record = result.before["servers"][run.subject]
    [card] = {at for who, at, held in result.before["claims"] if who == run.subject and equipment.EGRESS in dict(held)}
    [(port_id, server, owner, _, profile, count)] = [one for one in result.before["ports"] if one[0] == equipment.PORT]
    served = {"allocation": dict.fromkeys(profile["allocation"], card)}
    port = (port_id, server, owner, record.host, served, count)
    return {**result.before, "ports": [port if one[0] == port_id else one for one in result.before["ports"]]}


BY_NETWORK, BY_PORT = RequestedNic(network_id=equipment.NETWORK), RequestedNic(port_id=FREE_PORT)
BY_WIDE_PORT = RequestedNic(port_id=WIDE_PORT)

SCENARIOS = (
    Scenario("attach a volume", "attach_volume", attach(at_once=True), attached),
    Scenario("attach a volume later", "attach_volume", attach(at_once=False), attached),
    Scenario("attach a volume to a stopped one", "attach_volume", attach(at_once=True), attached, (stopped,)),
    Scenario("attach a volume while a move waits", "attach_volume", attach(at_once=True), attached, (resized,)),
    Scenario("attach a volume to one on no host", "attach_volume", attach(at_once=True), attached, (shelved,)),
    Scenario("detach a volume", "detach_volume", detach, detached),
    Scenario("detach a volume from one on no host", "detach_volume", detach, detached, (shelved,)),
    Scenario("detach a volume while a move waits", "detach_volume", detach, detached, (resized,)),
    Scenario("change a volume", "change_volume", change, changed),
    Scenario("change a volume of one on no host", "change_volume", change, changed, (shelved,)),
    Scenario("change a volume while a move waits", "change_volume", change, changed, (resized,)),
    Scenario("extend a volume", "extend_volume", extend, unchanged, (extended,), sees_the_size),
    Scenario(
        "extend a volume while a move waits", "extend_volume", extend, unchanged, (resized, extended), sees_the_size
    ),
    Scenario("swap a volume", "swap_volume", swap, swapped, (migrating,), uses_the_right_one),
    Scenario(
        "swap a volume while a move waits", "swap_volume", swap, swapped, (resized, migrating), uses_the_right_one
    ),
    Scenario(
        "take a snapshot",
        "take_volume_snapshot",
        take_snapshot,
        snapshot_taken,
        (snapshotting,),
        writes_to_the_right_file,
    ),
    Scenario(
        "take a snapshot of a stopped one",
        "take_volume_snapshot",
        take_snapshot,
        snapshot_taken,
        (stopped, snapshotting),
        writes_to_the_right_file,
    ),
    Scenario(
        "take a snapshot while a move waits",
        "take_volume_snapshot",
        take_snapshot,
        snapshot_taken,
        (resized, snapshotting),
        writes_to_the_right_file,
    ),
    Scenario(
        "merge files",
        "merge_volume_files",
        merge_files,
        files_merged,
        (unsnapshotting,),
        writes_to_the_right_file,
    ),
    Scenario("plug by network", "attach_interface", plug(BY_NETWORK), plugged),
    Scenario("plug by port, a stopped one", "attach_interface", plug(BY_PORT), plugged, (stopped,)),
    Scenario("plug a port with bandwidth", "attach_interface", plug(BY_WIDE_PORT), plugged),
    Scenario("unplug what was made for it", "detach_interface", unplug(ours=True), unplugged),
    Scenario("unplug a port with bandwidth", "detach_interface", unplug(ours=False), unplugged),
    Scenario("give a port back while a move waits", "tidy", give_back, given_back, (resized, misbound)),
)


# Telling


class Operation(Incarnations):
    """Runs one scenario."""

    def __init__(self, scenario: Scenario, *plans: Plan) -> None:
        super().__init__(*plans)
        self._scenario = scenario

    async def set_the_scene(self) -> None:
        if self._scenario.scene not in _SCENES:
            _SCENES[self._scenario.scene] = await _scene(self._scenario.scene)
        scene, self.server = _SCENES[self._scenario.scene]
        self.world = await scene.copy()
        self.world.registry = watched(SAGAS, self.world)
        self._invariants = Invariants(self.world)

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        await self._scenario.ask(cloud, engine, self.world.requester(), await lookup.find(cloud, self.server.id))
        await self._drive(cloud, engine)

    async def has_begun(self) -> bool:
        runs = await self.world.cloud.journal.find(RunFilter(subject=self.server.id, only_open=True))
        return any(run.saga == self._scenario.saga for run in runs)

    async def end(self) -> None:
        await self._invariants.check()


_SCENES: dict[tuple[Set, ...], tuple[World, Server]] = {}


async def _scene(acts: tuple[Set, ...]) -> tuple[World, Server]:
    """Create a server with ports and volumes, a port and a volume that are nobody's, and what is done before."""
    world = await World.build(HOSTS, rules=RULES, equipped=True)
    network, storage = world.remains.network, world.remains.volumes
    network.add_port(Port(id=FREE_PORT, network_id=equipment.NETWORK, project_id=PROJECT, mac="fa:16:3e:00:00:02"))
    request = PortRequest(
        id=WIDE,
        resources={equipment.EGRESS: equipment.KBPS, equipment.INGRESS: equipment.KBPS},
        required=(equipment.PHYSNET, equipment.NORMAL),
    )
    wide = Port(id=WIDE_PORT, network_id=equipment.NETWORK, project_id=PROJECT, mac="fa:16:3e:00:00:03")
    network.add_port(wide, requests=[request], same_subtree=[WIDE])
    storage.add_volume(
        Volume(id=FREE_VOLUME, project_id=PROJECT, name="more", status="available", size_gib=1, zone="nova")
    )
    server, engine = equipment.with_devices(world.new_server("s")), world.engine("setup")
    await create.accept(world.cloud, engine, world.requester(), [server], HostName("h1"))
    await world.settle(engine)
    for act in acts:
        await act(world, server)
    return world, await lookup.find(world.cloud, server.id)


async def touches_of(scenario: Scenario) -> list[str]:
    """Run a scenario without faults; return its touches."""
    ended = await Operation(scenario).play()
    await check(ended, scenario, may_be_nothing=False)
    return ended.incarnations[0].touches


async def play(scenario: Scenario, *plans: Plan) -> None:
    try:
        ended = await Operation(scenario, *plans).play()
        assert len(ended.fired) == len(plans), "the fault did not happen"
        await check(ended, scenario)
    except (AssertionError, Violation, WorldError) as error:
        raise AssertionError(f"{scenario} with {plans}: {error}") from error


async def check(ended: Result, scenario: Scenario, *, may_be_nothing: bool = True) -> None:
    """See that it ended as it was meant to, or as if it had never begun, the guest too; then see what follows."""
    after = await books(ended.world)
    if not (may_be_nothing and after == ended.before):
        runs = await ended.world.cloud.journal.find(RunFilter(subject=ended.server.id, sagas=[scenario.saga]))
        run, *earlier = runs
        assert may_be_nothing or run.state == "done", run.message
        assert all(one.state == "undone" for one in earlier), "it was done twice"
        wanted = scenario.meant(ended, run)
        assert after == wanted, "\n".join(
            f"{key} should be {wanted[key]}\nand is {after[key]}" for key in wanted if after[key] != wanted[key]
        )
        if scenario.seen:
            await scenario.seen(ended, runs)
    await see_the_guest(ended.world, ended.server.id)
    await (either_verdict if resized in scenario.scene else delete_and_see_nothing)(ended)


async def see_the_guest(world: World, server_id: ServerId) -> None:
    """See that the guest has what the record says."""
    record = await lookup.find(world.cloud, server_id)
    assert record.cell, "the server is on a host"
    if record.host is None:
        return
    agent = world.cloud.agent(record.cell, HostName(record.host or ""))
    guest = await agent.look(GuestKey(server_id, Slot(record.slot or "")))
    assert guest, "it is there"
    assert sorted(guest.volumes) == sorted(device.volume_id for device in record.volumes)
    assert sorted(guest.ports) == sorted(nic.port_id for nic in record.nics)


async def either_verdict(ended: Result) -> None:
    """Confirm in one world and revert in another: what came and went meanwhile stays so in both."""
    for judge in (requests.confirm, requests.revert):
        world = await ended.world.copy()
        engine, record = world.engine("afterwards"), await lookup.find(world.cloud, ended.server.id)
        await judge(world.cloud, engine, world.requester(), record)
        await world.settle(engine)
        settled = await lookup.find(world.cloud, record.id)
        assert (settled.vm_state, settled.task_state) == ("active", None)
        assert [one.volume_id for one in settled.volumes] == [one.volume_id for one in record.volumes]
        assert {one.host for one in settled.volumes} == {settled.host}
        await see_the_guest(world, record.id)
        await Invariants(world).check()
        await delete_and_see_nothing(Result(world, ended.before, ended.server, ended.incarnations))
    await ended.world.close()


async def see_no_orphan_after_the_verdict(ended: Result) -> None:
    world, engine = ended.world, ended.world.engine("afterwards")
    record = await lookup.find(world.cloud, ended.server.id)
    await requests.confirm(world.cloud, engine, world.requester(), record)
    await world.settle(engine)
    await release_late_effects(ended)
    held = {one.id for one in await world.cloud.volumes.attachments(record.id)}
    assert held == {device.attachment_id for device in (await lookup.find(world.cloud, record.id)).volumes}
    await world.close()


async def delete_and_see_nothing(ended: Result) -> None:
    """Delete the server; see that nothing is left but what is its owner's, and that this is free."""
    world, cloud, engine = ended.world, ended.world.cloud, ended.world.engine("afterwards")
    record = await lookup.find(cloud, ended.server.id)
    with_it = {one.volume_id for one in record.volumes if one.delete_on_termination}
    await delete.accept(cloud, engine, world.requester(), record)
    await world.settle(engine)
    left = await books(world)
    assert left["ports"] == [(name, "", "", "", {}, 0) for name in (equipment.PORT, FREE_PORT, WIDE_PORT)]
    assert [one for one in left["volumes"] if one != TARGET] == sorted({equipment.VOLUME, FREE_VOLUME} - with_it)
    assert not any(left[key] for key in ("servers", "claims", "guests", "attachments", "quota")), left
    await Invariants(world).check()
    await world.close()
