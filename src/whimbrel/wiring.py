"""The only module that knows every adapter: makes a process of a cloud out of its settings.

A process with hosts has the agents and the doors; one without reaches the agents through the first one's door.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import httpx
import structlog
from starlette.types import ASGIApp

from whimbrel.adapters.bus.http import HttpAgents
from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.adapters.clock import RandomIds, SystemClock
from whimbrel.adapters.sql.aggregates import SqlAggregates
from whimbrel.adapters.sql.cells import SqlCells
from whimbrel.adapters.sql.database import Database, open_database
from whimbrel.adapters.sql.devices import SqlDevices
from whimbrel.adapters.sql.directory import SqlDirectory
from whimbrel.adapters.sql.flavors import SqlFlavors
from whimbrel.adapters.sql.hosts import SqlHosts
from whimbrel.adapters.sql.identity import SqlIdentity
from whimbrel.adapters.sql.images import SqlImages
from whimbrel.adapters.sql.journal import SqlJournal
from whimbrel.adapters.sql.keep import SqlKeep
from whimbrel.adapters.sql.keypairs import SqlKeypairs
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.placement.upkeep import keep_up, load
from whimbrel.adapters.sql.quotas import SqlQuotas
from whimbrel.adapters.sql.schema import prepare
from whimbrel.adapters.sql.server_groups import SqlServerGroups
from whimbrel.adapters.sql.servers import SqlServers
from whimbrel.adapters.sql.volumes import SqlVolumes
from whimbrel.adapters.sql.zones import SqlZones
from whimbrel.agent.host import HostAgent
from whimbrel.conductor.book import BOOK
from whimbrel.conductor.conductor import Conductor
from whimbrel.datadir import INTERNAL, DataDir
from whimbrel.domain.errors import Conflict, Invalid, NotFound, WorldError
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import Capacity
from whimbrel.domain.host import Host, Zone
from whimbrel.domain.ids import CellName, HostName, ProviderId, RunId
from whimbrel.embedded.image.files import LocalImages
from whimbrel.moves.steps import record
from whimbrel.network_wiring import NetworkService, Ourselves, network_service
from whimbrel.placement.inventory import TRAITS_OF_HOSTS, besides, of_host
from whimbrel.placement.trees import StoredTrees
from whimbrel.ports.agent import Agents
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.hypervisor import Hypervisor
from whimbrel.saga.engine import Engine
from whimbrel.scheduling.fleet import KnownFleet
from whimbrel.settings import CloudConfig, LibvirtHost, SimulatedHost
from whimbrel.sim.hosts import SimulatedWorld
from whimbrel.sim.hypervisor import SimulatedHypervisor, Times
from whimbrel.volume_wiring import EmbeddedVolumes, distant_volumes, embedded_volumes

log = structlog.get_logger(__name__)

HEARTBEAT_S = 10.0
PATIENCE_S = 30.0  # for a host's answer
HOUR_S = 3600.0
WEEK_S = 7 * 24 * HOUR_S

FIRST_FLAVORS = (
    Flavor(flavor_id="1", name="m1.tiny", vcpus=1, memory_mib=512, root_gib=1),
    Flavor(flavor_id="2", name="m1.small", vcpus=1, memory_mib=2048, root_gib=20),
    Flavor(flavor_id="3", name="m1.medium", vcpus=2, memory_mib=4096, root_gib=40),
    Flavor(flavor_id="4", name="m1.large", vcpus=4, memory_mib=8192, root_gib=80),
)
"""What a new cloud starts with, so that its first server can be booted at once."""


@dataclass
class Process:
    """Everything that one process of a cloud has open."""

    cloud: Cloud
    identity: SqlIdentity
    image_store: SqlImages
    image_files: Path
    placement: SqlPlacement
    engine: Engine
    conductor: Conductor | None
    agents: Mapping[HostName, HostAgent]
    hypervisors: Mapping[HostName, Hypervisor]
    databases: list[Database]
    network_service: NetworkService
    embedded_volumes: EmbeddedVolumes | None  # None: the process with the hosts has it
    _closing: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def run(self) -> None:
        """Do the work in the background until cancelled: drive runs, tell that the hosts live, forget what is old."""
        async with asyncio.TaskGroup() as group:
            if self.conductor:
                group.create_task(self.conductor.serve())
            if self.agents:
                group.create_task(self._beat())
            if self.embedded_volumes:
                group.create_task(self.embedded_volumes.run())
            group.create_task(self.network_service.events.run())
            group.create_task(self._forget_old())
            group.create_task(keep_up(self.placement, self.cloud.clock))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            try:
                await self.sign_of_life()
            except WorldError as trouble:
                log.warning("no heartbeat was written", reason=trouble.reason)

    async def sign_of_life(self) -> None:
        """Write down which hosts answer now."""
        answering = [name for name, hypervisor in self.hypervisors.items() if await _answers(hypervisor)]
        for cell in self.cloud.cells.values():
            await cell.hosts.seen(answering, self.cloud.clock.now())

    async def _forget_old(self) -> None:
        """Forget the fences of runs that ended a week ago: no order of theirs can still be on its way."""
        done_until = 0.0
        while True:
            await asyncio.sleep(HOUR_S)
            before = self.cloud.clock.now() - WEEK_S
            try:
                await self._forget_fences(await self.cloud.journal.ended(done_until, before))
                for agent in self.agents.values():
                    await agent.prune(before)
            except WorldError as trouble:
                log.warning("nothing old was forgotten", reason=trouble.reason)
            else:
                done_until = before

    async def _forget_fences(self, runs: list[RunId]) -> None:
        if runs:
            await self.placement.forget_fences(runs)
            for cell in self.cloud.cells.values():
                await cell.servers.forget_fences(runs)

    async def close(self) -> None:
        if self.conductor:
            await self.conductor.close()
        for agent in self.agents.values():
            await agent.close()
        await self._closing.aclose()
        for database in self.databases:
            await database.close()


def prepare_stores(config: CloudConfig, url: str) -> None:
    """Bring every store to this program's schema. Raises: Refused: of a newer version; Unavailable."""
    cells = (_cell_schema(cell.name) for cell in config.cells)
    for schema in ("global", "placement", "identity", "images", "network", "volumes", "keep", *cells):
        prepare(url, schema)


async def open_process(
    config: CloudConfig,
    data: DataDir,
    url: str,
    name: str,
    *,
    hosts: bool,
    conductor: bool,
    front_url: str = "",
) -> Process:
    """Open a process named `name`; the stores are prepared. hosts: its agents run here, else elsewhere, over HTTP.

    front_url: where the doors of the cloud are.

    Raises: Invalid: the settings do not fit what is stored.
    """
    databases: dict[str, Database] = {}

    def database(schema: str) -> Database:
        databases[schema] = open_database(url, schema)
        return databases[schema]

    clock, ids, closing = SystemClock(), RandomIds(), AsyncExitStack()
    image_store, image_files = SqlImages(database("images")), data.path / "images"
    images = LocalImages(image_store, image_files, clock)
    global_ = database("global")
    keep = SqlKeep(database("keep"))
    placement = SqlPlacement(database("placement"), Random())
    hypervisors = _hypervisors(config, data, keep, clock, images) if hosts else {}
    local = {host: HostAgent(host, hypervisor, keep, images, clock) for host, hypervisor in hypervisors.items()}
    agents: Agents = LocalAgents(local, PATIENCE_S)
    if not hosts:
        client = await closing.enter_async_context(httpx.AsyncClient(limits=httpx.Limits(max_connections=200)))
        agents = HttpAgents(data.running().agents_url, data.agents_secret(), client)
    cells = {}
    for cell_name in (CellName(cell.name) for cell in config.cells):
        store = database(_cell_schema(cell_name))
        cells[cell_name] = Cell(
            name=cell_name,
            servers=SqlServers(store),
            hosts=SqlHosts(store, cell_name),
            devices=SqlDevices(store),
            agents=agents,
        )
    identity = SqlIdentity(database("identity"), clock)
    networks = await network_service(config, data, SqlNetworks(database("network")), front_url, clock, ids, closing)
    embedded = None
    if hosts:
        volume_store = SqlVolumes(database("volumes"))
        embedded = await embedded_volumes(config, data, volume_store, images, identity, clock, ids, closing)
    aggregates, infos = SqlAggregates(global_), SqlCells(global_)
    cloud = Cloud(
        clock=clock,
        ids=ids,
        journal=SqlJournal(global_, BOOK.facts_type),
        directory=SqlDirectory(global_),
        cells=cells,
        cell_infos=infos,
        fleets=KnownFleet(cells, infos, aggregates, clock, lambda: config.rules.default_availability_zone),
        placement=placement,
        images=images,
        network=networks.client,
        volumes=embedded.client if embedded else await distant_volumes(data, front_url, closing),
        flavors=SqlFlavors(global_),
        keypairs=SqlKeypairs(global_),
        quotas=SqlQuotas(global_),
        aggregates=aggregates,
        server_groups=SqlServerGroups(global_),
        zones=SqlZones(global_),
        rules=config.rules,
    )
    engine = make_engine(cloud, name)
    process = Process(
        cloud=cloud,
        identity=identity,
        image_store=image_store,
        image_files=image_files,
        placement=placement,
        engine=engine,
        conductor=Conductor(cloud, engine) if conductor else None,
        agents=local,
        hypervisors=hypervisors,
        network_service=networks,
        embedded_volumes=embedded,
        databases=list(databases.values()),
        _closing=closing,
    )
    try:
        await load(placement, clock)
        await _check_fit(process, config)
        if process.embedded_volumes:
            await process.embedded_volumes.start()
        if hosts:
            await _register(process, config)
            await process.network_service.report(StoredTrees(placement))
            await placement.forest()  # with what was registered just now
    except WorldError:
        await process.close()
        raise
    return process


def make_engine(cloud: Cloud, name: str) -> Engine:
    return Engine(
        cloud.journal,
        BOOK,
        cloud,
        cloud.clock,
        Random(),
        lambda run, task_state: record.show(run, task_state, cloud),
        name=name,
        lease_s=cloud.rules.lease_s,
        patience_s=cloud.rules.patience_s,
    )


def _cell_schema(name: str) -> str:
    return f"cell_{name}"


# Hosts


def _hypervisors(
    config: CloudConfig, data: DataDir, keep: SqlKeep, clock: Clock, images: LocalImages
) -> dict[HostName, Hypervisor]:
    world = SimulatedWorld()
    times = Times(**{name: getattr(config.simulated, name) for name in config.simulated.__struct_fields__})
    made: dict[HostName, Hypervisor] = {}
    for cell, host in config.hosts():
        name = HostName(host.name)
        if isinstance(host, SimulatedHost):
            made[name] = SimulatedHypervisor(
                name, world, keep, times, clock, cell=CellName(cell.name), capacity=_capacity(host), images=images
            )
        else:
            made[name] = _libvirt(host, data, images)
    return made


def _capacity(host: SimulatedHost) -> Capacity:
    return Capacity(
        vcpus=host.vcpus,
        memory_mib=host.memory_mib,
        disk_gib=host.disk_gib,
        hypervisor_type="simulated",
        hypervisor_version=1000,
    )


def _libvirt(host: LibvirtHost, data: DataDir, images: LocalImages) -> Hypervisor:
    from whimbrel.adapters.libvirt.hypervisor import LibvirtHypervisor  # an extra: only where it is used

    guests = Path(host.guests_dir) if host.guests_dir else data.path / "guests" / host.name
    return LibvirtHypervisor(
        host.uri,
        guests,
        images,
        vcpus=host.vcpus,
        memory_mib=host.memory_mib,
        disk_gib=host.disk_gib,
        virt_type=host.virt_type,
        nbd_address=host.nbd_address,
        host=host.name,
        nics=host.guest_nics,
    )


async def _answers(hypervisor: Hypervisor) -> bool:
    try:
        await hypervisor.capacity()
    except WorldError:
        return False
    return True


# Settings may change between two starts, but servers stay where they are


async def _check_fit(process: Process, config: CloudConfig) -> None:
    """Raises: Invalid: the settings leave out a cell in which servers live, or have a host that is known elsewhere."""
    for home, servers in (await process.cloud.directory.homes()).items():
        if home not in process.cloud.cells:
            raise Invalid(
                f"the settings have no cell '{home}', and {servers} servers of this cloud live in it: put it back, or"
                " use another --data-dir"
            )
    index = await process.placement.forest()
    providers = {node.provider.name: node.provider.uuid for node in index.nodes.values()}
    for name, cell in process.cloud.cells.items():
        known = {host.name: host.id for host in await cell.hosts.all()}
        for host in (host for each, host in config.hosts() if each.name == name):
            if providers.get(host.name) not in (None, known.get(HostName(host.name))):
                raise Invalid(
                    f"host '{host.name}' of cell '{name}' is known to this cloud already, outside of that cell: put it"
                    " back where it was, or give one of them another name"
                )


# What a new cloud has: hosts, providers, zones, flavors. Repeatable: every start does it.


async def _register(process: Process, config: CloudConfig) -> None:
    cloud = process.cloud
    for cell, host in config.hosts():
        hypervisor = process.hypervisors[HostName(host.name)]
        await _register_host(cloud, CellName(cell.name), host, await _what_it_is(hypervisor, host))
    await _register_zones(cloud, config)
    if not await cloud.flavors.all():
        for flavor in FIRST_FLAVORS:
            await cloud.flavors.create(flavor, cloud.clock.now())


async def _what_it_is(hypervisor: Hypervisor, host: SimulatedHost | LibvirtHost) -> tuple[Capacity, bool]:
    """Ask a hypervisor what it is; one that does not answer now is what the settings say."""
    try:
        return await hypervisor.capacity(), True
    except WorldError as trouble:
        log.warning("a host does not answer", host=host.name, reason=trouble.reason)
        unknown = Capacity(
            vcpus=host.vcpus,
            memory_mib=host.memory_mib,
            disk_gib=host.disk_gib,
            hypervisor_type="QEMU",
            hypervisor_version=1,
        )
        return unknown, False


async def _register_host(
    cloud: Cloud, cell: CellName, host: SimulatedHost | LibvirtHost, found: tuple[Capacity, bool]
) -> None:
    capacity, answers = found
    now = cloud.clock.now()
    row = await cloud.cell(cell).hosts.register(
        Host(
            name=HostName(host.name),
            cell=cell,
            id=ProviderId(cloud.ids.uuid()),
            service_id=cloud.ids.uuid(),
            driver="simulated" if isinstance(host, SimulatedHost) else "libvirt",
            vcpus=host.vcpus,
            memory_mib=host.memory_mib,
            disk_gib=host.disk_gib,
            seen_at=now if answers else 0.0,
            created_at=now,
            hypervisor_type=capacity.hypervisor_type,
            hypervisor_version=capacity.hypervisor_version,
            cpu_info=capacity.cpu_info,
        )
    )
    await cloud.cell(cell).devices.register(row.name, host.pci)
    offered = of_host(row, cloud.rules) | besides(host.dedicated_vcpus, host.resources)
    await cloud.placement.register_host(row.id, row.name, offered)
    await cloud.placement.offer_traits(row.id, [*TRAITS_OF_HOSTS, *host.traits])
    await cloud.placement.set_disabled(row.id, not row.enabled)


async def _register_zones(cloud: Cloud, config: CloudConfig) -> None:
    """Have an aggregate for every zone that the settings name, with its hosts; what operators changed later stays."""
    now, default = cloud.clock.now(), await _default_zone(cloud)
    known = {aggregate.name: aggregate for aggregate in await cloud.aggregates.all()}
    placed = {host: aggregate.zone for aggregate in known.values() if aggregate.zone for host in aggregate.hosts}
    for _, host in config.hosts():
        meant = known[host.zone].zone if host.zone in known else default.id
        if (zone := placed.get(HostName(host.name))) not in (None, meant):
            log.warning("a host stays in its zone, which is not that of the settings", host=host.name, zone=zone)
        if host.zone in (default.id, default.name) or host.name in placed:
            continue
        if host.zone not in known:
            zone = (await cloud.zones.ensure(Zone(id=cloud.ids.uuid(), name=host.zone, created_at=now))).id
            metadata = {"availability_zone": zone}
            known[host.zone] = await cloud.aggregates.create(host.zone, cloud.ids.uuid(), metadata, now)
        try:
            await cloud.aggregates.add_host(known[host.zone].id, HostName(host.name), now)
        except (Conflict, NotFound) as trouble:
            log.warning("a host is not in its zone", host=host.name, zone=host.zone, reason=trouble.reason)
    for cell in cloud.cells.values():
        ids = {host.name: host.id for host in await cell.hosts.all()}
        aggregates = await cloud.aggregates.all()
        for name, provider in ids.items():
            await cloud.placement.set_aggregates(provider, [a.uuid for a in aggregates if name in a.hosts])


async def _default_zone(cloud: Cloud) -> Zone:
    """Give the zone of hosts that no aggregate puts into one. Raises: Invalid: its name is another zone's."""
    rule = cloud.rules.default_availability_zone
    with suppress(NotFound):
        return await cloud.zones.get(rule)
    found = await cloud.zones.ensure(Zone(id=rule, name=rule, created_at=cloud.clock.now()))
    if found.id != rule:
        raise Invalid(
            f"[rules]: 'default_availability_zone' is '{rule}', the name of a zone that is there already; to make that"
            f" one the default zone give its id, '{found.id}'"
        )
    return found


# Doors


def doors(process: Process, data: DataDir, policy_file: Path | None, base_url: str) -> dict[str, ASGIApp]:
    """Give the application of each path of the one port, INTERNAL is for our own processes.

    Raises: Invalid: the policy file.
    """
    from whimbrel.adapters.bus.door import agents_app
    from whimbrel.api import policy as compute_policy
    from whimbrel.api.context import Context
    from whimbrel.api.door import compute_app
    from whimbrel.embedded.identity.app import identity_app
    from whimbrel.embedded.identity.catalog import Catalog, Service
    from whimbrel.embedded.image.app import image_app
    from whimbrel.placement_api import policy as placement_policy
    from whimbrel.placement_api.access import access
    from whimbrel.placement_api.app import placement_app
    from whimbrel.policy import Policy

    cloud, identity = process.cloud, process.identity
    assert process.embedded_volumes, "the process with the doors has the hosts"
    catalog = Catalog(
        services=(
            Service(type="identity", name="keystone", url=f"{base_url}/identity/v3"),
            Service(type="compute", name="nova", url=f"{base_url}/compute/v2.1"),
            Service(type="placement", name="placement", url=f"{base_url}/placement"),
            Service(type="image", name="glance", url=f"{base_url}/image"),
            Service(type="network", name="neutron", url=f"{base_url}/network"),
            Service(type="block-storage", name="cinderv3", url=f"{base_url}/volume/v3"),
            Service(type="volumev3", name="cinderv3", url=f"{base_url}/volume/v3"),
        )
    )
    # One file for both: their rules have names of their own, and those that they rest on are the same.
    policy = Policy.load({**compute_policy.DEFAULTS, **placement_policy.DEFAULTS["legacy"]}, policy_file)
    context = Context(cloud=cloud, engine=process.engine, identity=identity, policy=policy)
    process.network_service.hear(compute_app(replace(context, identity=Ourselves())))
    return {
        "identity": identity_app(identity, cloud.clock, cloud.ids, catalog),
        "compute": compute_app(context),
        "placement": placement_app(
            process.placement, identity, cloud.clock, cloud.ids, rights=access("legacy", policy)
        ),
        "image": image_app(process.image_store, process.image_files, identity, cloud.clock, cloud.ids),
        "network": process.network_service.app(identity),
        "volume": process.embedded_volumes.app,
        INTERNAL: agents_app(LocalAgents(process.agents), data.agents_secret()),
    }
