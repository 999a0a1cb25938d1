"""The only module that knows every adapter: makes a process of a cloud out of its settings.

A process with hosts has the agents and the doors; one without reaches the agents through the first one's door.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import httpx
import structlog
from starlette.types import ASGIApp

from whimbrel import host_wiring
from whimbrel.adapters.bus.http import HttpAgents
from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.adapters.clock import RandomIds, SystemClock
from whimbrel.adapters.prometheus.timed import timed
from whimbrel.adapters.sql.aggregates import SqlAggregates
from whimbrel.adapters.sql.cells import SqlCells
from whimbrel.adapters.sql.database import Database, open_database
from whimbrel.adapters.sql.directory import SqlDirectory
from whimbrel.adapters.sql.flavors import SqlFlavors
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
from whimbrel.adapters.sql.volumes import SqlVolumes
from whimbrel.adapters.sql.zones import SqlZones
from whimbrel.agent.host import HostAgent
from whimbrel.cell_wiring import OpenCell, OpenCells, name_cells
from whimbrel.conductor.book import BOOK
from whimbrel.conductor.conductor import Conductor
from whimbrel.datadir import INTERNAL, DataDir
from whimbrel.domain.errors import WorldError
from whimbrel.domain.guest import Capacity
from whimbrel.domain.ids import CellName, HostName
from whimbrel.embedded.image.files import LocalImages
from whimbrel.moves.steps import record
from whimbrel.network_wiring import NetworkService, Ourselves, network_service
from whimbrel.placement.trees import StoredTrees
from whimbrel.ports.agent import Agents
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hypervisor import Hypervisor
from whimbrel.ports.meter import Meter
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


@dataclass
class Process:
    """Everything that one process of a cloud has open."""

    config: CloudConfig
    cloud: Cloud
    cells: OpenCells
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
            group.create_task(self.cells.watch(self.arrived))

    async def register(self, cells: Sequence[OpenCell]) -> None:
        """Write down what the settings and the hosts of these cells say, if the hosts are here. Repeatable."""
        if not self.hypervisors:
            return
        for each in cells:
            await host_wiring.write_down_hosts(self.cloud, each.info.name, self.config, self.hypervisors)
        await host_wiring.write_down_zones(self.cloud, self.config, [each.info.name for each in cells])
        await self.network_service.report(StoredTrees(self.placement))
        await self.placement.forest()  # with what was registered just now

    async def check_hosts(self, cells: Sequence[OpenCell]) -> None:
        """Raises: Invalid: the settings have a host in one of these cells that is known elsewhere."""
        index = await self.placement.forest()
        providers = {node.provider.name: node.provider.uuid for node in index.nodes.values()}
        for each in cells:
            await host_wiring.check_hosts(each.cell, self.config, providers)

    async def arrived(self, cell: OpenCell) -> None:
        """Have a cell that was down when we started, or was added since, with its hosts."""
        await self.check_hosts([cell])
        await self.register([cell])

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self.sign_of_life()

    async def sign_of_life(self) -> None:
        """Write down which hosts answer now, in those cells that are up."""
        await asyncio.gather(*(self._sign_of_life(each) for each in self.cells.up))

    async def _sign_of_life(self, cell: OpenCell) -> None:
        name = cell.info.name
        asked = [HostName(host.name) for each, host in self.config.hosts() if each.name == name]
        answers = await asyncio.gather(*(_answers(self.hypervisors[host]) for host in asked))
        answering = [host for host, answer in zip(asked, answers, strict=True) if answer]
        metrics = await self._metrics(answering)
        try:
            await cell.cell.hosts.seen(answering, self.cloud.clock.now())
            await cell.cell.hosts.tell(metrics)
        except WorldError as trouble:
            log.warning("no heartbeat was written", cell=name, reason=trouble.reason)

    async def _metrics(self, hosts: Sequence[HostName]) -> dict[HostName, dict[str, float]]:
        """Ask hosts for their load, where a rule says what to make of it."""
        if not self.cloud.rules.scheduler.metrics_weight_setting:
            return {}
        told = await asyncio.gather(*(_metrics(self.hypervisors[host]) for host in hosts))
        return dict(zip(hosts, told, strict=True))

    async def _forget_old(self) -> None:
        """Forget the fences of runs that ended a week ago: no order of theirs can still be on its way."""
        done_until: dict[str, float] = {}
        while True:
            await asyncio.sleep(HOUR_S)
            await self.forget_before(self.cloud.clock.now() - WEEK_S, done_until)

    async def forget_before(self, before: float, done_until: dict[str, float]) -> None:
        """Have all who know fences forget those of runs that ended before; one who is down does it next time.

        done_until: who has forgotten what ended before which moment; it is kept up here.
        """
        known = {f"cell {name}": cell.servers.forget_fences for name, cell in self.cloud.cells.items()}
        for name, forget in {"placement": self.placement.forget_fences, **known}.items():
            with _told(name):
                if runs := await self.cloud.journal.ended(done_until.get(name, 0.0), before):
                    await forget(runs)
                done_until[name] = before
        for host, agent in self.agents.items():
            with _told(f"host {host}"):
                await agent.prune(before)

    async def close(self) -> None:
        if self.conductor:
            await self.conductor.close()
        for agent in self.agents.values():
            await agent.close()
        await self._closing.aclose()
        await self.cells.close()
        for database in self.databases:
            await database.close()


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Go on after what the world says, and log it."""
    try:
        yield
    except WorldError as trouble:
        log.warning("nothing old was forgotten", where=where, reason=trouble.reason)


def prepare_stores(url: str) -> None:
    """Bring every store but the cells' to this program's schema. Raises: Refused: of a newer version; Unavailable."""
    for schema in ("global", "placement", "identity", "images", "network", "volumes", "keep"):
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

    Raises: Invalid: the settings do not fit what is stored; Unavailable: a database of the cloud itself is away.
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
    buses = _own_buses(config, local) if hosts else await _distant_buses(data, closing)
    aggregates, infos = SqlAggregates(global_), SqlCells(global_)
    cells = OpenCells(infos, url, buses, clock)
    identity = SqlIdentity(database("identity"), clock)
    networks = await network_service(config, data, SqlNetworks(database("network")), front_url, clock, ids, closing)
    embedded = None
    if hosts:
        volume_store = SqlVolumes(database("volumes"))
        embedded = await embedded_volumes(config, data, volume_store, images, identity, clock, ids, closing)
    meter = Meter()
    cloud = Cloud(
        clock=clock,
        ids=ids,
        journal=SqlJournal(global_, BOOK.facts_type),
        directory=SqlDirectory(global_),
        cells=cells,
        cell_infos=infos,
        fleets=KnownFleet(cells, infos, aggregates, clock, config.rules),
        placement=timed(placement, meter),
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
        meter=meter,
    )
    engine = make_engine(cloud, name)
    process = Process(
        config=config,
        cloud=cloud,
        cells=cells,
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
        if hosts:
            await name_cells(config, infos, cloud.directory, cloud.journal, clock.now())
        await cells.open()
        await process.check_hosts(cells.up)
        if process.embedded_volumes:
            await process.embedded_volumes.start()
        if hosts:
            await process.register(cells.up)
            await host_wiring.write_down_flavors(cloud)
        for each in cells.up:
            each.is_new = False
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


# Buses: an agent is found on that of its own cell only


def _own_buses(config: CloudConfig, agents: Mapping[HostName, HostAgent]) -> Callable[[CellName], Agents]:
    def bus(cell: CellName) -> Agents:
        names = [HostName(host.name) for each, host in config.hosts() if each.name == cell]
        return LocalAgents({name: agents[name] for name in names}, PATIENCE_S)

    return bus


async def _distant_buses(data: DataDir, closing: AsyncExitStack) -> Callable[[CellName], Agents]:
    client = await closing.enter_async_context(httpx.AsyncClient(limits=httpx.Limits(max_connections=200)))
    running, secret = data.running(), data.agents_secret()
    return lambda cell: HttpAgents(running.agents_url(cell), secret, client)


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
        numa=host.numa,
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


async def _metrics(hypervisor: Hypervisor) -> dict[str, float]:
    try:
        return await hypervisor.metrics()
    except WorldError:
        return {}


# Doors


def doors(process: Process, data: DataDir, policy_file: Path | None, base_url: str) -> dict[str, ASGIApp]:
    """Give the application of each path of the one port, INTERNAL is for our own processes.

    Raises: Invalid: the policy file.
    """
    from whimbrel.adapters.bus.door import cells_app
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
        INTERNAL: cells_app({name: cell.agents for name, cell in cloud.cells.items()}, data.agents_secret()),
    }
