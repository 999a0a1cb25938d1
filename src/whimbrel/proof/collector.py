"""Collect the cloud snapshot and the evidence that is too expensive to read per server.

Invariant: nothing is changed. Each fact is read from its source: guests from the agents of the hosts, devices
from the cells, attachments, volumes and images from their services, runs from the journal.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from whimbrel.domain.errors import WorldError
from whimbrel.domain.guest import Guest
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName, RunId, ServerId
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.pci import HeldDevice
from whimbrel.domain.run import Run, has_facts
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.steps.disk import TRANSFER_IMAGE, transfer_images_of
from whimbrel.moves.steps.shelved_images import SHELVED_BY
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.images import Image
from whimbrel.ports.services.volumes import Attachment, VolumeUse
from whimbrel.ports.stores.catalog import zones_by_host
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.evidence import CloudSnapshot, Seen
from whimbrel.proof.paged_reads import each, of_cells, pages, run_of, runs


class Collector:
    """Evidence that is read for the whole cloud at once."""

    def __init__(self, unreachable_cells: Mapping[CellName, str] = {}) -> None:
        """unreachable_cells: cells that are not asked again."""
        self.guests: dict[ServerId, list[Seen]] = defaultdict(list)
        self.unreachable: dict[HostName, str] = {}
        self.unreachable_cells = dict(unreachable_cells)  # cells with an unreachable database, and the reason
        self.attachments: dict[ServerId, list[Attachment]] = defaultdict(list)
        self.shared: dict[str, set[ServerId]] = {}  # volume -> its servers, if there are several
        self.uses: dict[str, VolumeUse] | None = None  # of volumes in use or reported so; None: not read
        self._first_users: dict[str, ServerId] = {}
        self.devices: dict[ServerId, list[tuple[HostName, HeldDevice]]] = defaultdict(list)
        self.runs: dict[ServerId, list[Run]] = defaultdict(list)
        self.images: dict[ServerId, list[Image]] = defaultdict(list)

    def collect_attachment(self, one: Attachment) -> None:
        self.attachments[one.server].append(one)
        other = self._first_users.setdefault(one.volume_id, one.server)
        if other != one.server:
            self.shared.setdefault(one.volume_id, {other}).add(one.server)

    def owners(self) -> set[ServerId]:
        """Return the ids under which anything was found."""
        everything = (self.guests, self.attachments, self.devices, self.runs, self.images)
        return {owner for seen in everything for owner in seen}


# Snapshot


async def read_snapshot(cloud: Cloud, collector: Collector) -> CloudSnapshot:
    hosts: dict[HostName, Host] = {}
    async for _, found in of_cells(cloud, collector.unreachable_cells, lambda cell: cell.hosts.all()):
        hosts |= {host.name: host for host in found}
    providers = await cloud.placement.providers()
    zones = zones_by_host(await cloud.aggregates.all())
    default = cloud.rules.default_availability_zone
    return CloudSnapshot(
        hosts=hosts,
        zones={host: zones.get(host, default) for host in hosts},
        zone_names={zone.id: zone.name for zone in await cloud.zones.all()},
        default_zone=default,
        aliases=tuple(cloud.rules.pci_alias),
        guests=collector.guests,
        unreachable=collector.unreachable,
        unreachable_cells=collector.unreachable_cells,
        roots={one.id: one.root for one in providers},
        names={one.id: one.name for one in providers},
        is_held=(await cloud.restores.state()).hold is not None,
    )


# Collected for all servers


async def collect_guests(
    cloud: Cloud, snapshot: CloudSnapshot, collector: Collector, hosts: Iterable[HostName]
) -> None:
    """Ask the agents of these hosts for their guests; results are stored in sorted order, not in order of arrival."""
    there: dict[HostName, Sequence[Guest]] = {}

    async def ask(host: HostName) -> None:
        try:
            there[host] = await cloud.agent(snapshot.hosts[host].cell, host).guests()
        except WorldError as trouble:
            collector.unreachable[host] = trouble.reason

    await each(hosts, ask)
    for host in sorted(there):
        for guest in sorted(there[host], key=lambda one: one.key.slot):
            collector.guests[guest.key.server].append((host, guest))


async def collect_devices(cloud: Cloud, collector: Collector) -> None:
    async for _, found in of_cells(cloud, collector.unreachable_cells, lambda cell: cell.devices.held()):
        for host, one in found:
            if one.holder:
                collector.devices[one.holder.server].append((host, one))


async def collect_attachments(cloud: Cloud, collector: Collector) -> None:
    async for page in pages(cloud.volumes.all_attachments):
        for one in page:
            collector.collect_attachment(one)


async def collect_volumes(cloud: Cloud, collector: Collector) -> None:
    collector.uses = {}
    async for page in pages(cloud.volumes.volume_uses):
        collector.uses |= {one.id: one for one in page if one.hosts or one.status != "available"}


async def collect_runs(cloud: Cloud, collector: Collector) -> None:
    async for run in runs(cloud, RunFilter(only_open=True)):
        collector.runs[run.subject].append(replace(run, log=()))


async def collect_runs_of(
    cloud: Cloud, collector: Collector, ids: Sequence[ServerId], but: RunId | None = None
) -> None:
    """Collect the open runs of these servers. but: a run to ignore."""
    for name in ids:
        found = await cloud.journal.find(RunFilter(subject=name, only_open=True))
        collector.runs[name] += [run for run in found if run.id != but]


async def collect_images(cloud: Cloud, collector: Collector) -> None:
    """Find the images that wait for a file, carry a disk, or were made by a shelve, and the server of each."""
    waiting: dict[str, Image] = {}
    async for page in pages(cloud.images.all_images):
        for image in page:
            if mark := image.properties.get(TRANSFER_IMAGE):
                if sender := await _sender(cloud, mark, image.id):
                    collector.images[sender].append(image)
            elif mark := image.properties.get(SHELVED_BY):
                if server := await _shelved_by(cloud, mark, image.id):
                    collector.images[server].append(image)
            elif image.status == "queued":
                waiting[image.id] = image
    if not waiting:
        return
    async for run in runs(cloud, RunFilter(sagas=("snapshot",))):
        image_id = run.facts.image_id if has_facts(run, OperationFacts) else None
        if image_id and (found := waiting.get(image_id)):
            collector.images[run.subject].append(found)


async def _sender(cloud: Cloud, mark: str, image_id: str) -> ServerId | None:
    """Return the server of a transfer image, or None if no run confirms it: image owners can set any property."""
    run = await run_of(cloud, mark)
    if run is None or not has_facts(run, MoveFacts):
        return None
    return run.subject if any(image_id in of_try for of_try in transfer_images_of(run).values()) else None


async def _shelved_by(cloud: Cloud, mark: str, image_id: str) -> ServerId | None:
    """Return the server that was shelved with this image, or None if no run confirms it."""
    run = await run_of(cloud, mark)
    if run is None or not has_facts(run, OperationFacts):
        return None
    return run.subject if image_id in run.facts.shelved_images.values() else None
