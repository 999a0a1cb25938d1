"""Reading a cloud: all that there is under some ids, and under which ids there is anything.

Law: nothing is changed, and nothing is believed that could be asked: records come from their stores, guests from the
agents of the hosts, claims from Placement, ports and attachments from their services.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused, Unavailable, WorldError
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, ConsumerId, HostName, RunId, ServerId
from whimbrel.domain.pci import HeldDevice
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.steps.disk import PARCEL
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.images import Image
from whimbrel.ports.journal import RunFilter
from whimbrel.ports.network import Binding, Port
from whimbrel.ports.pages import Hold, Page
from whimbrel.ports.servers import ServerQuery
from whimbrel.ports.volumes import Attachment
from whimbrel.proof.due import Claims
from whimbrel.proof.stake import Ground, Seen, Stake

PAGE = 500
AT_ONCE = 32
"""How many hosts, or ports, are asked at the same time."""

T = TypeVar("T")


class Sights:
    """What can only be read as a whole, or costs too much to be asked of one server after the other."""

    def __init__(self) -> None:
        self.guests: dict[ServerId, list[Seen]] = defaultdict(list)
        self.silent: dict[HostName, str] = {}
        self.blind: dict[CellName, str] = {}  # cells whose database does not answer
        self.attachments: dict[ServerId, list[Attachment]] = defaultdict(list)
        self.devices: dict[ServerId, list[tuple[HostName, HeldDevice]]] = defaultdict(list)
        self.runs: dict[ServerId, list[Run]] = defaultdict(list)
        self.images: dict[ServerId, list[Image]] = defaultdict(list)

    def owners(self) -> set[ServerId]:
        """Give under which ids anything was seen."""
        everything = (self.guests, self.attachments, self.devices, self.runs, self.images)
        return {owner for seen in everything for owner in seen}


# The ground


async def read_ground(cloud: Cloud, sights: Sights) -> Ground:
    hosts: dict[HostName, Host] = {}
    for name, cell in cloud.cells.items():
        try:
            hosts |= {host.name: host for host in await cell.hosts.all()}
        except Unavailable as trouble:
            sights.blind[name] = trouble.reason
    providers = await cloud.placement.providers()
    zones = {host: each.zone for each in await cloud.aggregates.all() if each.zone for host in each.hosts}
    default = cloud.rules.default_availability_zone
    return Ground(
        hosts=hosts,
        zones={host: zones.get(host, default) for host in hosts},
        default_zone=default,
        silent=sights.silent,
        roots={one.id: one.root for one in providers},
        names={one.id: one.name for one in providers},
    )


# What is seen of all


async def see_guests(
    cloud: Cloud, ground: Ground, sights: Sights, hosts: Iterable[HostName], told: Callable[[], None] = lambda: None
) -> None:
    """Ask the agents of these hosts which guests they run. told: is called after each."""

    async def ask(host: HostName) -> None:
        try:
            found = await cloud.agent(ground.hosts[host].cell, host).guests()
        except WorldError as trouble:
            sights.silent[host] = trouble.reason
        else:
            for guest in found:
                sights.guests[guest.key.server].append((host, guest))
        told()

    await _each(hosts, ask)


async def see_devices(cloud: Cloud, sights: Sights) -> None:
    for cell in _seen_cells(cloud, sights):
        for host in await cell.devices.counts():
            for one in await cell.devices.of(host):
                if one.holder:
                    sights.devices[one.holder.server].append((host, one))


def _seen_cells(cloud: Cloud, sights: Sights) -> list[Cell]:
    return [cell for name, cell in cloud.cells.items() if name not in sights.blind]


async def see_attachments(cloud: Cloud, sights: Sights) -> None:
    async for page in pages(cloud.volumes.all_attachments):
        for one in page:
            sights.attachments[one.server].append(one)


async def see_runs(cloud: Cloud, sights: Sights) -> None:
    async for run in _runs(cloud, RunFilter(only_open=True)):
        sights.runs[run.subject].append(replace(run, log=()))


async def see_images(cloud: Cloud, sights: Sights) -> None:
    """Find out which images wait for a file or carry a disk, and of which servers."""
    waiting: dict[str, Image] = {}
    async for page in pages(cloud.images.all_images):
        for image in page:
            if mark := image.properties.get(PARCEL):
                sights.images[await _subject(cloud, mark)].append(image)
            elif image.status == "queued":
                waiting[image.id] = image
    if not waiting:
        return
    async for run in _runs(cloud, RunFilter(sagas=("snapshot",))):
        if found := waiting.get(run.facts.image_id):
            sights.images[run.subject].append(found)


async def _subject(cloud: Cloud, run_id: str) -> ServerId:
    """Give whose run this is; of one that is not known its own id, under which nothing is to be."""
    try:
        return (await cloud.journal.get(RunId(run_id))).subject
    except NotFound:
        return ServerId(run_id)


async def refusals(cloud: Cloud) -> AsyncIterator[Run]:
    """Give the runs that ended in error."""
    async for run in _runs(cloud, RunFilter(statuses=("error",))):
        yield run


async def _runs(cloud: Cloud, which: RunFilter) -> AsyncIterator[Run]:
    after: RunId | None = None
    while True:
        page = await cloud.journal.find(replace(which, after=after, limit=PAGE))
        for run in page:
            yield run
        if len(page) < PAGE:
            return
        after = page[-1].id


async def pages(read: Callable[[str | None, int], Awaitable[Page[T]]]) -> AsyncIterator[list[T]]:
    """Give page after page; what the next one begins with may be gone meanwhile: then it begins with the one before."""
    ended: list[str] = []
    while True:
        try:
            page = await read(ended[-1] if ended else None, PAGE)
        except (NotFound, Refused):
            if not ended:
                raise
            ended.pop()
            continue
        yield page.items
        if page.after is None:
            return
        ended.append(page.after)


# Under which ids there is anything


async def living(cloud: Cloud) -> AsyncIterator[list[ServerId]]:
    async for page in pages(cloud.directory.ids):
        yield page


async def strangers(cloud: Cloud, sights: Sights, known: Collection[str]) -> set[ServerId]:
    """Give the ids under which there is anything, and which are no living servers. known: those that are."""
    found = {owner for owner in sights.owners() if owner not in known}
    sources: list[Callable[[str | None, int], Awaitable[Page[Any]]]] = [
        cloud.placement.consumers,
        cloud.network.port_holders,
        *(cell.servers.ids for cell in _seen_cells(cloud, sights)),
    ]
    open_runs = {run.id for runs in sights.runs.values() for run in runs}
    for source in sources:
        async for page in pages(source):
            found |= {ServerId(one) for one in page if one not in known and one not in open_runs}
    return found


# Under some ids


async def stakes(cloud: Cloud, ids: Sequence[ServerId], sights: Sights) -> list[Stake]:
    """Read all that there is under these ids, but for what the sights have already.

    Left out are those whose cell does not answer.
    """
    found = await records_of(cloud, ids, sights)
    held = await _claims(cloud, [*(one.id for one in found), *(run.id for one in found for run in one.runs)])
    ports: dict[str, list[Port]] = defaultdict(list)
    for port in await cloud.network.ports_of([one.id for one in found]):
        ports[port.device_id].append(port)
    bindings = await _bindings(cloud, [port for one in found if not one.runs for port in ports[one.id]])
    for one in found:
        one.own = held.get(one.id, [])
        one.of_runs = {run.id: held[run.id] for run in one.runs if run.id in held}
        one.ports = tuple(ports[one.id])
        one.bindings = {port.id: bindings[port.id] for port in one.ports if port.id in bindings}
        one.is_known = one.is_known or await _is_in_journal(cloud, one.id)
    return found


async def records_of(cloud: Cloud, ids: Sequence[ServerId], sights: Sights) -> list[Stake]:
    """Read where these are, besides what the sights have, and nothing of what they hold."""
    entries = await cloud.directory.entries(ids)
    records: dict[ServerId, dict[CellName, Server]] = defaultdict(dict)
    holds: dict[ServerId, dict[CellName, Hold]] = defaultdict(dict)
    for cell in _seen_cells(cloud, sights):
        try:
            found, held = await cell.servers.find(ServerQuery(ids=ids)), await cell.servers.holds(ids)
        except Unavailable as trouble:
            sights.blind[cell.name] = trouble.reason
            continue
        for record in found:
            records[record.id][cell.name] = record
        for name, hold in held.items():
            holds[name][cell.name] = hold
    return [
        Stake(
            id=one,
            entry=entries.get(one),
            records=records.get(one, {}),
            holds=holds.get(one, {}),
            runs=tuple(sorted(sights.runs.get(one, ()), key=lambda run: run.state != "parked")),
            guests=tuple(sights.guests.get(one, ())),
            attachments=tuple(sights.attachments.get(one, ())),
            devices=tuple(sights.devices.get(one, ())),
            images=tuple(sights.images.get(one, ())),
            is_known=one in entries or one in records,
        )
        for one in ids
        if one not in entries or entries[one].cell not in sights.blind
    ]


async def _claims(cloud: Cloud, consumers: Sequence[str]) -> dict[str, Claims]:
    held: dict[str, Claims] = defaultdict(list)
    for one in await cloud.placement.allocations([ConsumerId(each) for each in consumers]):
        held[one.consumer].append((one.provider, one.resources))
    return held


async def _bindings(cloud: Cloud, ports: Sequence[Port]) -> Mapping[str, tuple[Binding, ...]]:
    found: dict[str, tuple[Binding, ...]] = {}

    async def ask(port: Port) -> None:
        try:
            found[port.id] = tuple(await cloud.network.bindings(port.id))
        except NotFound:
            return  # it was deleted meanwhile

    await _each(ports, ask)
    return found


async def _is_in_journal(cloud: Cloud, one: ServerId) -> bool:
    return bool(await cloud.journal.find(RunFilter(subject=one, limit=1)))


async def _each(items: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Do something with each, with some of them at a time."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await act(item)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
