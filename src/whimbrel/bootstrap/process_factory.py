"""Creates a process of a cloud from its settings, with its adapters.

A process with hosts has the agents and the applications; others reach the agents through its internal endpoint.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import Random

import httpx

from whimbrel.adapters.bus.agent_client import HttpAgents
from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.adapters.clock import DatabaseClock, RandomIds, SystemClock
from whimbrel.adapters.prometheus.timed_store import timed
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.adapters.sql.engine.schema import check, prepare, version_of
from whimbrel.adapters.sql.global_.aggregates import SqlAggregates
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.adapters.sql.global_.directory import SqlDirectory
from whimbrel.adapters.sql.global_.flavors import SqlFlavors
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.adapters.sql.global_.keypairs import SqlKeypairs
from whimbrel.adapters.sql.global_.processes import SqlProcesses
from whimbrel.adapters.sql.global_.quotas import SqlQuotas
from whimbrel.adapters.sql.global_.restores import SqlRestores
from whimbrel.adapters.sql.global_.server_groups import SqlServerGroups
from whimbrel.adapters.sql.global_.zones import SqlZones
from whimbrel.adapters.sql.identity.store import SqlIdentity
from whimbrel.adapters.sql.image_store import SqlImages
from whimbrel.adapters.sql.key_value_store import SqlKeyValueStore
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.placement.index_refresh import load
from whimbrel.adapters.sql.volumes import SqlVolumes
from whimbrel.agent.agent import HostAgent
from whimbrel.bootstrap import hosts as host_wiring
from whimbrel.bootstrap.cells import OpenCells, name_cells
from whimbrel.bootstrap.hypervisors import hypervisors_of, ledger_stores
from whimbrel.bootstrap.network import network_service
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.registration import Registration, guarded
from whimbrel.bootstrap.volumes import distant_volumes, embedded_volumes
from whimbrel.conductor.conductor import Conductor
from whimbrel.conductor.parts import engine_parts
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.ids import CellName, HostName
from whimbrel.embedded.image.file_store import FileStore
from whimbrel.embedded.image.in_process import LocalImages
from whimbrel.embedded.image.service import ImageService
from whimbrel.embedded.image.storage_limit import Allowance
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.agent import Agents
from whimbrel.ports.meter import Meter
from whimbrel.ports.stores.processes import ProcessRecord
from whimbrel.saga.engine import Engine
from whimbrel.scheduling.fleet import KnownFleet
from whimbrel.servers.devices.recorded_volumes import RecordedVolumes
from whimbrel.settings import CloudConfig
from whimbrel.settings.datadir import DataDir

TIMEOUT_S = 30.0  # for a host's answer


STORES = ("global", "placement", "identity", "images", "network", "volumes", "keep")

FIRST_WITH_PROCESSES = "0013"
"""The first version of the global schema that has the table of processes."""


def prepare_stores(url: str) -> None:
    """Migrate every store except the cells' to this program's schema. Raises: Refused: of a newer version;
    Unavailable.
    """
    for schema in STORES:
        prepare(url, schema)


def check_stores(url: str) -> None:
    """Raises: Refused: a store is not at this program's schema; Unavailable."""
    for schema in STORES:
        check(url, schema)


async def open_process(
    config: CloudConfig,
    data: DataDir,
    url: str,
    record: ProcessRecord,
    *,
    hosts: bool,
    conductor: bool,
    front_url: str = "",
) -> Process:
    """Open the process that `record` describes. hosts: its agents run here, else elsewhere, over HTTP.

    The process with the hosts migrates the stores to this program's schema; others require it. front_url: of the
    cloud's applications. On any failure, all open resources are closed.

    Raises: Invalid: the settings do not fit the stored data; Refused: another process has the role, or a store has
    another version; Unavailable: a database of the cloud itself is unreachable.
    """
    async with AsyncExitStack() as opened:
        base = await _registered(config, data, url, record, opened, migrates=hosts)
        process = await _opened(base, hosts=hosts, conductor=conductor, front_url=front_url)
        await _start(process)
        process.closing = opened.pop_all()
    return process


@dataclass(frozen=True)
class _Base:
    """The dependencies of a process's parts. Their resources are closed with `opened`, in reverse order."""

    config: CloudConfig
    data: DataDir
    url: str
    clock: DatabaseClock
    databases: Databases
    global_: Database
    registration: Registration
    opened: AsyncExitStack

    def database(self, schema: str) -> Database:
        made = self.databases.open(self.url, schema)
        self.opened.push_async_callback(made.close)
        return made


async def _registered(
    config: CloudConfig, data: DataDir, url: str, record: ProcessRecord, opened: AsyncExitStack, *, migrates: bool
) -> _Base:
    """Register this process, and migrate the stores to this program's schema or check them.

    Only a process that has its role migrates stores. A refused process leaves an older one's databases unchanged, so
    that the older one can start again.
    """
    if not migrates:
        check_stores(url)
    elif (version_of(url, "global") or "") < FIRST_WITH_PROCESSES:
        prepare(url, "global")
    clock, databases = DatabaseClock(SystemClock()), Databases(config.database.connections)
    global_ = databases.open(url, "global")
    opened.push_async_callback(global_.close)
    registration = Registration(SqlProcesses(global_.urgent, SystemClock()), record, clock)
    await registration.begin()
    opened.push_async_callback(registration.end)
    if migrates:
        await asyncio.to_thread(prepare_stores, url)  # the lease is renewed meanwhile
    return _Base(config, data, url, clock, databases, global_, registration, opened)


async def _opened(base: _Base, *, hosts: bool, conductor: bool, front_url: str) -> Process:
    """Create all parts of a process."""
    config, data, url, clock, opened = base.config, base.data, base.url, base.clock, base.opened
    database, databases, global_, registration = base.database, base.databases, base.global_, base.registration
    ids = RandomIds()
    image_store = SqlImages(database("images"))
    files = FileStore(data.images, config.storage.reserved_bytes)
    image_service = ImageService(image_store, files, clock, Allowance(image_store, config.images.limits))
    images = LocalImages(image_service)
    keep = guarded(SqlKeyValueStore(database("keep")), registration.check)
    placement = SqlPlacement(database("placement"), Random())
    hypervisors = hypervisors_of(config, data, keep, clock, images) if hosts else {}
    hypervisors = {host: guarded(hypervisor, registration.check) for host, hypervisor in hypervisors.items()}
    ledger_of = await ledger_stores(config, data, databases, keep, opened) if hosts else lambda host: keep
    local = {
        host: HostAgent(host, hypervisor, guarded(ledger_of(host), registration.check), images, clock)
        for host, hypervisor in hypervisors.items()
    }
    buses = _own_buses(config, local) if hosts else await _distant_buses(data, opened)
    aggregates, infos = SqlAggregates(global_), SqlCells(global_)
    cells = OpenCells(infos, url, buses, clock, databases, migrates=hosts)
    opened.push_async_callback(cells.close)
    identity = SqlIdentity(database("identity"), clock)
    networks = await network_service(config, data, SqlNetworks(database("network")), front_url, clock, ids, opened)
    embedded = None
    if hosts:
        volume_store = SqlVolumes(database("volumes"))
        users = RecordedVolumes(SqlDirectory(global_), cells)
        embedded = await embedded_volumes(config, data, volume_store, images, identity, clock, ids, opened, users)
    meter = Meter()
    cloud = Cloud(
        clock=clock,
        ids=ids,
        journal=SqlJournal(global_, SAGAS),
        directory=SqlDirectory(global_),
        cells=cells,
        cell_infos=infos,
        fleets=KnownFleet(cells, infos, aggregates, clock, config.rules),
        placement=timed(placement, meter),
        images=images,
        network=networks.client,
        volumes=embedded.client if embedded else await distant_volumes(data, front_url, opened),
        flavors=SqlFlavors(global_),
        keypairs=SqlKeypairs(global_),
        quotas=SqlQuotas(global_),
        aggregates=aggregates,
        server_groups=SqlServerGroups(global_),
        zones=SqlZones(global_),
        restores=SqlRestores(global_),
        processes=registration.processes,
        rules=config.rules,
        meter=meter,
    )
    parts = engine_parts(cloud, registration.record.id, Random(), known_to_all=registration.known_to_all)
    conducting = Conductor(cloud, parts, predecessors=registration.predecessors) if conductor else None
    for agent in local.values():
        opened.push_async_callback(agent.close)
    if conducting:
        opened.push_async_callback(conducting.close)
    return Process(
        config=config,
        cloud=cloud,
        cells=cells,
        identity=identity,
        image_service=image_service,
        placement=placement,
        registration=registration,
        engine=conducting.engine if conducting else Engine(parts),
        conductor=conducting,
        agents=local,
        hypervisors=hypervisors,
        network_service=networks,
        embedded_volumes=embedded,
    )


async def _start(process: Process) -> None:
    """Read the stored data, and register the hosts of the settings. Raises: Invalid; Unavailable."""
    cloud, cells = process.cloud, process.cells
    await load(process.placement, cloud.clock)
    if process.has_hosts:
        await name_cells(process.config, cloud.cell_infos, cloud.directory, cloud.journal, cloud.clock.now())
    await cells.open()
    await process.check_hosts(cells.up)
    if process.embedded_volumes:
        await process.embedded_volumes.start()
        await process.image_service.sweep()
    if process.has_hosts:
        await process.register(cells.up)
        await host_wiring.write_down_flavors(cloud)
    for each in cells.up:
        each.is_new = False


# Buses: an agent is reachable only on that of its own cell


def _own_buses(config: CloudConfig, agents: Mapping[HostName, HostAgent]) -> Callable[[CellName], Agents]:
    def bus(cell: CellName) -> Agents:
        names = [HostName(host.name) for each, host in config.hosts() if each.name == cell]
        return LocalAgents({name: agents[name] for name in names}, TIMEOUT_S)

    return bus


async def _distant_buses(data: DataDir, closing: AsyncExitStack) -> Callable[[CellName], Agents]:
    client = await closing.enter_async_context(httpx.AsyncClient(limits=httpx.Limits(max_connections=200)))
    running, secret = data.running(), data.agents_secret()
    return lambda cell: HttpAgents(running.agents_url(cell), secret, client)
