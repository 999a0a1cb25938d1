"""A snapshot of all that a maintenance depends on, with which a simulated cloud executes its plan.

Invariant: nothing is changed, and nothing secret is in it: passwords, user data, keys and metadata are left out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from importlib.metadata import version
from statistics import median
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, WorldError
from whimbrel.domain.guest import DiskName, GuestKey
from whimbrel.domain.host import Aggregate, Host, Zone
from whimbrel.domain.ids import CellName, ConsumerId, HostName, ProviderId, ServerId
from whimbrel.domain.live_transfer import GuestCpu
from whimbrel.domain.maintenance_plan import Maintenance, MaintenanceItem
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.domain.pci import HeldDevice
from whimbrel.domain.server import Server
from whimbrel.maintenance.target_planning import EXAMINED_AT_ONCE
from whimbrel.moves.live_migrate import LIVE_MIGRATE
from whimbrel.moves.live_progress import progress_of
from whimbrel.moves.live_requests import LIVE_STATES
from whimbrel.moves.steps.pci_devices import migratable_of
from whimbrel.placement.search import SHARING
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.placement.placement import DISABLED, HostZone, Inventory, Owner
from whimbrel.ports.services.network import NetworkInfo, Port
from whimbrel.ports.services.volumes import Volume
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.scheduling.filters.by_cell import BACKENDS
from whimbrel.servers import lookup
from whimbrel.servers.host_evacuation import PRIORITY

MIB = 1 << 20
MEASURED = 50
"""How many of the latest live migrations are looked at for their rates."""

T = TypeVar("T")
Result = TypeVar("Result")


class KnownProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A resource provider. is_disabled: it takes no claims."""

    id: ProviderId
    name: str
    parent: ProviderId | None
    inventories: dict[str, Inventory]
    traits: tuple[str, ...]
    aggregates: tuple[str, ...]
    is_disabled: bool


class KnownClaim(msgspec.Struct, frozen=True, kw_only=True):
    """All that a consumer has: provider -> resource class -> amount."""

    consumer: ConsumerId
    owner: Owner
    held: dict[ProviderId, dict[str, int]]


class KnownGuest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the host of a running guest says of it. disks: sizes in bytes. refused: why it says nothing."""

    cpu: GuestCpu = GuestCpu()
    hypervisor_version: int = 0
    disks: dict[DiskName, int] = {}
    immovable: str = ""  # why it cannot move while it runs
    refused: str = ""


class MeasuredRates(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of the latest live migrations. transfers: how many were measured."""

    transfers: int
    link_mib_s: float
    dirty_mib_s: float


class CloudSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that servers of the maintenance can be on, with all that is on them. at: seconds since 1970."""

    release: str  # of the program that has read it
    at: float
    rules: Rules
    maintenance: Maintenance
    items: list[MaintenanceItem]
    cells: list[CellInfo]
    zones: list[Zone]
    hosts: list[Host]
    aggregates: list[Aggregate]
    host_zones: list[HostZone]
    providers: list[KnownProvider]  # parents come first
    claims: list[KnownClaim]
    groups: list[ServerGroup]
    servers: list[Server]
    guests: dict[ServerId, KnownGuest]
    ports: list[Port]
    networks: list[NetworkInfo]
    segments: dict[str, dict[str, str]]  # network -> subnet -> segment
    volumes: list[Volume]  # empty: no decision depends on volumes
    devices: dict[HostName, list[HeldDevice]]
    measured: MeasuredRates | None


async def take(cloud: Cloud, maintenance_id: str) -> CloudSnapshot:
    """Raises: NotFound; Conflict: the maintenance is over; Unavailable: a cell or a service does not answer."""
    maintenance = await cloud.maintenances.get(maintenance_id)
    if maintenance.finished_at is not None:
        raise Conflict(f"Maintenance {maintenance.name} is {maintenance.state}: there is nothing to simulate.")
    items = await cloud.maintenances.items(maintenance_id)
    fleet, infos = await cloud.fleets.now(), await cloud.cell_infos.all()
    cells = set(maintenance.named.values())
    if maintenance.options.leaves_cell:
        cells = {cell for cell in fleet.cells if cell not in fleet.unreachable}
    hosts = [host for host in fleet.hosts if host.cell in cells]
    found = [await lookup.on_host(cloud, host.cell, host.name) for host in hosts]
    servers = [_bare(server) for of_host in found for server in of_host]
    providers = await _providers(cloud, {host.id for host in hosts})
    ports = await cloud.network.ports_of([server.id for server in servers if server.nics])
    networks = await cloud.network.networks(None, sorted({port.network_id for port in ports}))
    devices = await _devices(cloud, hosts)
    return CloudSnapshot(
        release=version("whimbrel"),
        at=cloud.clock.now(),
        rules=replace(cloud.rules, notifications=NotificationRules()),
        maintenance=maintenance,
        items=items,
        cells=[replace(info, database=None) for info in infos if info.name in cells],
        zones=await cloud.zones.all(),
        hosts=hosts,
        aggregates=[_among(each, {host.name for host in hosts}) for each in await cloud.aggregates.all()],
        host_zones=await cloud.placement.zoned_hosts(),
        providers=providers,
        claims=await _claims(cloud, {provider.id for provider in providers}),
        groups=await _groups(cloud, servers),
        servers=servers,
        guests=await _guests(cloud, servers, maintenance, {item.server_id for item in items}, devices),
        ports=[replace(port, name="") for port in ports],
        networks=networks,
        segments={network.id: await cloud.network.segments(network.id) for network in networks},
        volumes=await _volumes(cloud, servers, infos),
        devices=devices,
        measured=await _measured(cloud),
    )


def _bare(server: Server) -> Server:
    """Return a record with what moves depend on."""
    return replace(
        server,
        metadata={key: value for key, value in server.metadata.items() if key == PRIORITY},
        tags=[],
        description=None,
        user_data=None,
        key_data=None,
        admin_pass=None,
        random_seed="",
        guest_password="",
        fault=None,
        unknown=msgspec.UNSET,
    )


def _among(aggregate: Aggregate, hosts: Collection[HostName]) -> Aggregate:
    return replace(aggregate, hosts=[host for host in aggregate.hosts if host in hosts])


# Placement


async def _providers(cloud: Cloud, roots: Collection[ProviderId]) -> list[KnownProvider]:
    """Return the trees of these hosts, and the other trees that share an aggregate with one of them."""
    states = await cloud.placement.providers()
    inventories = await cloud.placement.inventories()
    near = {uuid for state in states if state.root in roots for uuid in state.aggregates}
    sharing = {state.root for state in states if SHARING in state.traits and near & state.aggregates}
    wanted = {state.id: state for state in states if state.root in roots or state.root in sharing}

    def depth(uuid: ProviderId | None) -> int:
        return 1 + depth(wanted[uuid].parent) if uuid else 0

    return [
        KnownProvider(
            id=state.id,
            name=state.name,
            parent=state.parent,
            inventories=inventories.get(state.id, {}),
            traits=tuple(sorted(state.traits - {DISABLED})),
            aggregates=tuple(sorted(state.aggregates)),
            is_disabled=DISABLED in state.traits,
        )
        for state in sorted(wanted.values(), key=lambda state: depth(state.id))
    ]


async def _claims(cloud: Cloud, providers: Collection[ProviderId]) -> list[KnownClaim]:
    held: dict[ConsumerId, dict[ProviderId, dict[str, int]]] = {}
    for allocation in await cloud.placement.allocations():
        if allocation.provider in providers:
            held.setdefault(allocation.consumer, {})[allocation.provider] = allocation.resources
    owners = await cloud.placement.owners(list(held))
    return [KnownClaim(consumer=one, owner=owners[one], held=of_one) for one, of_one in held.items() if one in owners]


# Servers


async def _groups(cloud: Cloud, servers: Sequence[Server]) -> list[ServerGroup]:
    named = {server.spec.requested_group for server in servers} - {None}
    return [group for group in await cloud.server_groups.find(None) if group.id in named] if named else []


async def _guests(
    cloud: Cloud,
    servers: Sequence[Server],
    maintenance: Maintenance,
    planned: Collection[ServerId],
    devices: Mapping[HostName, Sequence[HeldDevice]],
) -> dict[ServerId, KnownGuest]:
    """Return the running guests of the servers that are to move."""
    moving = [one for one in servers if one.host in maintenance.named or one.id in planned]
    asked = [one for one in moving if one.vm_state in LIVE_STATES]
    found = await _several(asked, lambda server: _guest(cloud, server, devices))
    return {server.id: guest for server, guest in zip(asked, found, strict=True)}


async def _guest(cloud: Cloud, server: Server, devices: Mapping[HostName, Sequence[HeldDevice]]) -> KnownGuest:
    assert server.cell, "it was found on a host"
    assert server.host, "it was found on a host"
    assert server.slot, "it was found on a host"
    key = GuestKey(server.id, server.slot)
    try:
        seen = await cloud.agent(server.cell, server.host).examine(
            key, migratable_of(key, devices.get(server.host, ()))
        )
    except WorldError as no:
        return KnownGuest(refused=no.reason)
    return KnownGuest(
        cpu=seen.cpu, hypervisor_version=seen.hypervisor_version, disks=seen.disks, immovable=seen.immovable
    )


async def _several(asked: Sequence[T], ask: Callable[[T], Awaitable[Result]]) -> list[Result]:
    turns = asyncio.Semaphore(EXAMINED_AT_ONCE)

    async def one(each: T) -> Result:
        async with turns:
            return await ask(each)

    return await asyncio.gather(*map(one, asked))


# Devices


async def _volumes(cloud: Cloud, servers: Sequence[Server], cells: Sequence[CellInfo]) -> list[Volume]:
    """Return the volumes if their zone or their storage decides where a server can be."""
    decides = not cloud.rules.cross_az_attach or any(cell.storage is not None for cell in cells)
    if not decides and not (await cloud.fleets.now()).marked(BACKENDS):
        return []
    ids = sorted({device.volume_id for server in servers for device in server.volumes})
    found = await _several(ids, lambda one: _volume(cloud, one))
    return [replace(one, name="", metadata={}) for one in found if one]


async def _volume(cloud: Cloud, volume_id: str) -> Volume | None:
    try:
        return await cloud.volumes.volume(volume_id)
    except WorldError:
        return None  # the plan has said so


async def _devices(cloud: Cloud, hosts: Sequence[Host]) -> dict[HostName, list[HeldDevice]]:
    counts: dict[CellName, Collection[HostName]] = {
        cell: {*await cloud.cell(cell).devices.counts(), *(host for host, _ in await cloud.cell(cell).devices.held())}
        for cell in {host.cell for host in hosts}
    }
    return {
        host.name: await cloud.cell(host.cell).devices.of(host.name) for host in hosts if host.name in counts[host.cell]
    }


# Rates


async def _measured(cloud: Cloud) -> MeasuredRates | None:
    """Return the rates of the latest live migrations whose transfers were watched."""
    runs = await cloud.journal.find(RunFilter(sagas=(LIVE_MIGRATE.name,), states=("done",), limit=MEASURED))
    seen = [noted.progress for noted in (await progress_of(cloud, runs)).values() if noted.progress.elapsed_s > 0]
    rates = [(one.memory_total + one.disk_total) / one.elapsed_s / MIB for one in seen]
    if not any(rates):
        return None
    dirty = median(one.dirty_rate / MIB for one in seen)
    return MeasuredRates(transfers=len(seen), link_mib_s=median(rates), dirty_mib_s=dirty)
