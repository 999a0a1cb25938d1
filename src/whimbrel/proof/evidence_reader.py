"""Read all evidence for some ids: what the collector already has, and the rest for these ids alone.

Invariant: nothing is changed. Each fact is read from its source: records from their cells, claims from Placement,
ports and volumes from their services, and ended runs from the journal, last of all.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import CellName, ConsumerId, ProjectId, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.evacuation_facts import NAME, left_behind
from whimbrel.moves.named_devices import without_claims
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.services.network import Binding, Port, own_ports
from whimbrel.ports.services.volume_snapshots import HOST_IS_DONE
from whimbrel.ports.services.volumes import Attachment, Volume, VolumeUse
from whimbrel.ports.stores.directory import Entry
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.pages import Hold
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.proof.collector import Collector
from whimbrel.proof.due_allocations import Claims
from whimbrel.proof.evidence import CREATE, DELETE, REPAIR, FileSnapshot, ServerEvidence, UnendedSwap
from whimbrel.proof.invariants.images import SHELVED
from whimbrel.proof.paged_reads import each, of_cells, run_of
from whimbrel.proof.volume_migrations import migrated_volume


async def all_evidence(cloud: Cloud, ids: Sequence[ServerId], collector: Collector) -> list[ServerEvidence]:
    """Read all evidence for these ids that the collector does not have.

    Ids with a possible record in an unreachable cell are left out.
    """
    found = await records_of(cloud, ids, collector)
    held = await _claims(cloud, [*(one.id for one in found), *(run.id for one in found for run in one.runs)])
    owners = await cloud.placement.owners([ConsumerId(one.id) for one in found])
    ports: dict[str, list[Port]] = defaultdict(list)
    for port in await cloud.network.ports_of([one.id for one in found]):
        ports[port.device_id].append(port)
    bindings = await _bindings(cloud, [port for one in found if not one.runs or one.waiting for port in ports[one.id]])
    for one in found:
        one.own, one.owner = held.get(one.id, []), owners.get(ConsumerId(one.id))
        one.is_consumer = one.owner is not None
        one.of_runs = {run.id: held[run.id] for run in one.runs if run.id in held}
        one.ports = tuple(sorted(ports[one.id], key=lambda port: port.id))
        one.bindings = {port.id: bindings[port.id] for port in one.ports if port.id in bindings}
        one.lost_ports = await _lost_ports(cloud, one)
        one.uses = await _uses(cloud, one, collector)
        one.kept = await _kept(cloud, one)
        one.swaps = await _swaps(cloud, one)
        one.file_snapshots = await _file_snapshots(cloud, one)
        one.lost_merges = await _lost_merges(cloud, one)
        await _ask_journal(cloud, one)
        await _leave_out_claims(cloud, one, collector)
    return found


async def records_of(cloud: Cloud, ids: Sequence[ServerId], collector: Collector) -> list[ServerEvidence]:
    """Read directory entries, records and locks of these ids, and none of their resources."""
    entries = await cloud.directory.entries(ids)
    records: dict[ServerId, dict[CellName, Server]] = defaultdict(dict)
    holds: dict[ServerId, dict[CellName, Hold]] = defaultdict(dict)
    query = ServerQuery(ids=ids)

    async def read(cell: Cell) -> tuple[list[Server], dict[ServerId, Hold]]:
        return await cell.servers.find(query), await cell.servers.holds(ids)

    async for cell, (found, held) in of_cells(cloud, collector.unreachable_cells, read):
        for record in found:
            records[record.id][cell] = record
        for name, hold in held.items():
            holds[name][cell] = hold
    return [
        ServerEvidence(
            id=one,
            entry=entries.get(one),
            records=records.get(one, {}),
            holds=holds.get(one, {}),
            runs=tuple(sorted(collector.runs.get(one, ()), key=lambda run: run.state != "parked")),
            guests=tuple(collector.guests.get(one, ())),
            attachments=tuple(collector.attachments.get(one, ())),
            devices=tuple(collector.devices.get(one, ())),
            images=tuple(collector.images.get(one, ())),
            is_known=one in entries or one in records,
        )
        for one in ids
        if _may_be_judged(entries.get(one), collector.unreachable_cells)
    ]


def _may_be_judged(entry: Entry | None, unreachable_cells: Collection[CellName]) -> bool:
    """Check whether all its records could be read: without a directory entry, any cell may have one."""
    return entry.cell not in unreachable_cells if entry else not unreachable_cells


async def _lost_ports(cloud: Cloud, one: ServerEvidence) -> frozenset[str]:
    """Return the ports that its guests have and that do not exist, as after a restore of the network service."""
    of_guests = {port_id for _, guest in one.guests for port_id in guest.ports}
    lost = set()
    for port_id in sorted(of_guests - {port.id for port in one.ports}):
        try:
            await cloud.network.port(port_id)
        except NotFound:
            lost.add(port_id)
    return frozenset(lost)


async def _uses(cloud: Cloud, one: ServerEvidence, collector: Collector) -> Mapping[str, VolumeUse]:
    """Return the uses of the volumes that its record names; those not read in bulk are read one by one."""
    found, known = dict[str, VolumeUse](), collector.uses or {}
    for device in one.home.volumes if one.home else ():
        try:
            found[device.volume_id] = known.get(device.volume_id) or await cloud.volumes.volume_use(device.volume_id)
        except NotFound:
            continue
    return found


async def _swaps(cloud: Cloud, one: ServerEvidence) -> Mapping[str, UnendedSwap]:
    """Return the swaps of recorded volumes that no open run carries out."""
    named = {device.volume_id for device in one.record.volumes} if one.record and one.is_still else set()
    found: dict[str, UnendedSwap] = {}
    for other in one.attachments if named else ():
        volume = await migrated_volume(other, cloud) if other.volume_id not in named else None
        if volume and volume.id in named:
            found[other.id] = UnendedSwap(
                volume_id=volume.id, target_id=other.volume_id, is_awaited=volume.takes_completion
            )
    return found


async def _file_snapshots(cloud: Cloud, one: ServerEvidence) -> Mapping[str, FileSnapshot]:
    """Return the snapshots that the guest has taken, by what its host says, and the volume service has not."""
    guest = one.guest(one.home.host, one.key) if one.home else None
    recorded = {device.volume_id for device in one.home.volumes} if one.home else set()
    found: dict[str, FileSnapshot] = {}
    for snapshot_id in guest.file_snapshots if guest else ():
        try:
            snapshot = await cloud.volumes.snapshot_details(snapshot_id)
        except NotFound:
            continue  # it was deleted, and its file is in use
        if snapshot.status in ("creating", "error") and snapshot.volume_id in recorded:
            is_awaited = snapshot.status == "creating"
            found[snapshot_id] = FileSnapshot(volume_id=snapshot.volume_id, is_awaited=is_awaited)
    return found


async def _lost_merges(cloud: Cloud, one: ServerEvidence) -> Mapping[str, str]:
    """Return the snapshots that the volume service deletes and for which it waits for the host, with their volumes."""
    home = one.home if one.is_still else None
    guest = one.guest(home.host, one.key) if home else None
    files = guest.files if guest else ()
    found: dict[str, str] = {}
    for device in home.volumes if home else ():
        use = one.uses.get(device.volume_id)
        name = (use and use.named_by) or device.volume_id
        if any(f"{name}." in file for file in files):
            for snapshot in await cloud.volumes.snapshots_of(device.volume_id):
                if snapshot.status == "deleting" and snapshot.progress != HOST_IS_DONE:
                    found[snapshot.id] = device.volume_id
    return found


async def _kept(cloud: Cloud, one: ServerEvidence) -> Mapping[str, str | None]:
    """Return the status of the images from which a shelved server would be restored."""
    found: dict[str, str | None] = {}
    is_shelved = one.record is not None and one.record.vm_state in SHELVED
    for image_id in one.record.shelved_images.values() if one.record and is_shelved and not one.runs else ():
        try:
            found[image_id] = (await cloud.images.show(image_id)).status
        except NotFound:
            found[image_id] = None
    return found


async def _leave_out_claims(cloud: Cloud, one: ServerEvidence, collector: Collector) -> None:
    """Ignore ports and attachments of other projects, and those that a user of its own made there.

    Neutron and Cinder do not check the device id. What the record names always counts: an administrator may attach a
    volume of another project. So does what a guest has: the record may be older than it.
    """
    if not one.projects:
        return
    nics, volumes = (one.record.nics, one.record.volumes) if one.record else ((), ())
    named = {device.volume_id for device in volumes} | {swap.target_id for swap in one.swaps.values()}
    ours = ("", *one.projects)
    held = [
        each for each in one.attachments if each.volume_id in named or await _project(cloud, each, collector) in ours
    ]
    in_use = {*(nic.port_id for nic in nics), *named}
    in_use.update(*(guest.ports for _, guest in one.guests), *(guest.volumes for _, guest in one.guests))
    ports, held = await without_claims(one.id, own_ports(one.ports, one.projects, nics), held, in_use, cloud)
    one.ports, one.attachments = tuple(ports), tuple(held)


async def _project(cloud: Cloud, attachment: Attachment, collector: Collector) -> str:
    """Return the project of the volume, or "" if it is unknown."""
    known = (collector.uses or {}).get(attachment.volume_id)
    try:
        return (known or await cloud.volumes.volume_use(attachment.volume_id)).project
    except NotFound:
        return ""


async def users(cloud: Cloud, volume_id: str, servers: Iterable[ServerId]) -> tuple[list[ServerId], Volume | None]:
    """Return the servers that hold a volume now, and the volume (None: it does not exist)."""
    holding = [server for server in servers if await cloud.volumes.attachments(server, volume_id)]
    try:
        return holding, await cloud.volumes.volume(volume_id)
    except NotFound:
        return holding, None


async def _claims(cloud: Cloud, consumers: Sequence[str]) -> dict[str, Claims]:
    held: dict[str, Claims] = defaultdict(list)
    for one in await cloud.placement.allocations([ConsumerId(name) for name in consumers]):
        held[one.consumer].append((one.provider, one.resources))
    return held


async def _bindings(cloud: Cloud, ports: Sequence[Port]) -> Mapping[str, tuple[Binding, ...]]:
    found: dict[str, tuple[Binding, ...]] = {}

    async def ask(port: Port) -> None:
        try:
            found[port.id] = tuple(await cloud.network.bindings(port.id))
        except NotFound:
            return  # deleted in the meantime

    await each(ports, ask)
    return found


async def _ask_journal(cloud: Cloud, one: ServerEvidence) -> None:
    """Read from the journal last: by then it has every run that began before the other reads."""
    if any(one.orphans()):
        one.left_behind = left_behind(await cloud.journal.find(RunFilter(subject=one.id, sagas=(NAME,))))
    if not one.is_alive:
        of_it = [run for run in await cloud.journal.find(RunFilter(subject=one.id)) if run.saga != REPAIR]
        one.is_known = one.is_known or bool(of_it)
        one.is_ended = _has_ended(of_it)
        one.is_lost = one.entry is None and bool(of_it) and not one.is_ended
        one.made_for = of_it[-1].project_id if of_it and one.entry is None else None
    if one.own and one.entry is None:
        run = await run_of(cloud, one.id)
        one.is_run = run is not None and not run.is_over
    if one.record and one.entry and one.entry.project_id != one.record.project_id:
        one.made_for = await _made_for(cloud, one.id)
    if not one.runs or one.waiting:
        for held in one.holds.values():
            if held.run and held.run not in [run.id for run in one.runs] and await run_of(cloud, held.run) is None:
                one.unknown_lock = held.run


async def _made_for(cloud: Cloud, server: ServerId) -> ProjectId | None:
    made = await cloud.journal.find(RunFilter(subject=server, sagas=(CREATE,)))
    return made[-1].project_id if made else None


async def is_ended(cloud: Cloud, server: ServerId) -> bool:
    """Check whether the journal has a completed delete of this server."""
    return _has_ended(await cloud.journal.find(RunFilter(subject=server, sagas=(DELETE,))))


def _has_ended(runs: Iterable[Run]) -> bool:
    return any((run.saga, run.state) == (DELETE, "done") for run in runs)
