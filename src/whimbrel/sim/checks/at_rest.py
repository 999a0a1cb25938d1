"""Invariants of an idle cloud: no operation is in progress and no fault is recent, so nothing may be left over.

The invariants of `proof` are not repeated here: these need data that only the simulation has.
"""

from collections.abc import Iterator, Mapping

from whimbrel.domain import local_disks
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import has_facts
from whimbrel.domain.server import Server
from whimbrel.moves.facts import moves_of
from whimbrel.ports.services.volumes import MARK
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.proof.invariants.images import SHELVED
from whimbrel.servers.lifecycle.create import CREATE
from whimbrel.servers.lifecycle.create_image import SNAPSHOT, image_of
from whimbrel.servers.lifecycle.image_of_volumes import SNAPSHOT_VOLUMES
from whimbrel.servers.lookup import listing
from whimbrel.sim.checks.invariants import Invariants
from whimbrel.sim.cloud.cloud import IMAGE, World
from whimbrel.sim.world.disks import GIB, Disk

Live = Mapping[str, Server]
Where = tuple[str, tuple[str, str | None]]


async def problems(world: World, *, journal_is_whole: bool = True) -> list[str]:
    """Return what is left over or missing.

    journal_is_whole: the journal was never restored from a copy. Otherwise the owners of images and volumes are
    unknown, and a move that was overtaken may leave its disk offered for reading.
    """
    live = {str(server.id): server for server in await listing(world.cloud, ServerQuery())}
    return [
        *(f"{s.id} is still {s.vm_state} and {s.task_state}" for s in live.values() if s.task_state is not None),
        *await Invariants(world).at_rest(),
        *_guests(world, live),
        *(_offers(world) if journal_is_whole else ()),
        *_disks(world, live),
        *await _ports(world, live),
        *await _attachments(world, live),
        *(await _made(world, live) if journal_is_whole else ()),
        *await _shelved(world, live),
    ]


def _guests(world: World, live: Live) -> Iterator[str]:
    """Check all hosts, also those on which no server is recorded."""
    homes: set[Where] = {(server.id, (server.host, server.slot)) for server in live.values() if server.host}
    there: set[Where] = {(guest.key.server, (host, guest.key.slot)) for host, guest in world.simulated.guests()}
    for server, where in sorted(there - homes, key=str):
        yield f"a guest of {server} is left on {where[0]} as {where[1]}"
    for server, where in sorted(homes - there, key=str):
        yield f"server {server} has no guest on {where[0]}"


def _offers(world: World) -> Iterator[str]:
    for name, host in world.hypervisors.items():
        for key in host.offers():
            yield f"{name} still offers the disks of {key.server}"


def _disks(world: World, live: Live) -> Iterator[str]:
    for host in world.hypervisors.values():
        found: dict[str, dict[str, Disk]] = {}
        for key, disk, has in host.disks():
            found.setdefault(key.server, {})[disk] = has
        for server, disks in found.items():
            if server in live:
                yield from _disks_differ(live[server], disks)


def _disks_differ(server: Server, disks: Mapping[str, Disk]) -> Iterator[str]:
    """Compare disk sizes with the flavor and boot counts with each other: each boot writes to all disks."""
    flavor, has_root = server.flavor, server.has_local_root
    due = {
        "root": flavor.root_gib * GIB if has_root else 0,
        "ephemeral": flavor.ephemeral_gib * GIB,
        "swap": flavor.swap_mib * local_disks.MIB,
    }
    sizes = {name: disk.size_bytes for name, disk in disks.items()}
    if sizes != {name: size for name, size in due.items() if size}:
        yield f"the disks of {server.id} have {sizes}, and its flavor says {due}"
    used = {(disk.contents.marker, disk.contents.boots) for name, disk in disks.items() if name != "swap"}
    if len(used) > 1:
        yield f"the disks of {server.id} were not used together: {sorted(used, key=str)}"


async def _ports(world: World, live: Live) -> list[str]:
    network = world.remains.network
    nics = {nic.port_id: server for server in live.values() for nic in server.nics}
    found = [f"port {port.id} was made for {one}, which has it no more" for port, one in network.made()
             if port.id not in nics]  # fmt: skip
    for port in network.everything():
        if port.device_id and (port.id not in nics or port.device_id != nics[port.id].id):
            found.append(f"port {port.id} says it is of {port.device_id}, whose record knows nothing of it")
        for binding in await network.bindings(port.id):
            if not (binding.is_active or port.device_id):
                continue  # an inactive binding of a free port stays until the port is used again
            if not binding.is_active or port.id not in nics or binding.host != nics[port.id].host:
                found.append(f"port {port.id} is bound to {binding.host} besides")
    return found


async def _attachments(world: World, live: Live) -> list[str]:
    attached = {device.attachment_id for server in live.values() for device in server.volumes}
    return [
        f"volume {one.volume_id} is attached to {one.server} on {host}, whose record knows nothing of it"
        for one, host in world.remains.volumes.everything()
        if one.server not in live or one.id not in attached
    ]


async def _made(world: World, live: Live) -> list[str]:
    return [*await _volumes(world, live), *await _images(world, live)]


async def _shelved(world: World, live: Live) -> list[str]:
    """Check that each shelved server can be restored, whatever became of the journal."""
    there = world.images.ids()
    kept = {one: s for s in live.values() if s.vm_state in SHELVED for one in s.shelved_images.values()}
    statuses = {one: (await world.images.show(one)).status if one in there else "lost" for one in kept}
    return [f"image {one} of shelved server {kept[one].id} is {it}" for one, it in statuses.items() if it != "active"]


async def _volumes(world: World, live: Live) -> list[str]:
    volumes = world.remains.volumes
    noted = await _noted(world)
    marks = {one: (await volumes.volume(one)).metadata.get(MARK, "") for one in volumes.ids()}
    return [
        f"volume {one} was made for {mark}, which is no more"
        for one, mark in marks.items()
        if mark and mark.split("/")[0] not in live and one not in noted
    ]


async def _noted(world: World) -> set[str]:
    """Return the volumes that creations of servers made. A volume that was detached may outlive its server."""
    made = await world.cloud.journal.find(RunFilter(sagas=(CREATE.name,)))
    return {device.volume_id for run in moves_of(made) if run.state == "done" for device in run.facts.volumes}


async def _images(world: World, live: Live) -> list[str]:
    taken = await world.cloud.journal.find(RunFilter(sagas=(SNAPSHOT.name, SNAPSHOT_VOLUMES.name)))
    meant = {IMAGE, *(image_of(run) for run in taken if run.state == "done" and has_facts(run, OperationFacts))}
    meant |= {one for s in live.values() if s.vm_state in SHELVED for one in s.shelved_images.values()}
    there = set(world.images.ids())
    left = [f"image {one} is left of what came to nothing" for one in sorted(there - meant)]
    left += [f"image {one} of a snapshot is not there" for one in sorted(meant - there)]
    statuses = {one: (await world.images.show(one)).status for one in sorted(meant & there)}
    return left + [f"image {one} is {status} for good" for one, status in statuses.items() if status != "active"]
