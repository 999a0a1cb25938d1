"""Creates a process of a cloud from its role and settings, with its adapters.

What a process lacks it reaches elsewhere: agents over the bus, services over HTTP.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from random import Random

from msgspec.structs import replace

from whimbrel.adapters.clock import RandomIds
from whimbrel.adapters.prometheus.timed_store import timed
from whimbrel.adapters.sql.global_.aggregates import SqlAggregates
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.adapters.sql.global_.console_tokens import SqlConsoleTokens
from whimbrel.adapters.sql.global_.directory import SqlDirectory
from whimbrel.adapters.sql.global_.flavors import SqlFlavors
from whimbrel.adapters.sql.global_.host_keys import SqlHostKeys
from whimbrel.adapters.sql.global_.image_fetches import SqlImageFetches
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.adapters.sql.global_.keypairs import SqlKeypairs
from whimbrel.adapters.sql.global_.maintenances import SqlMaintenances
from whimbrel.adapters.sql.global_.restores import SqlRestores
from whimbrel.adapters.sql.global_.server_groups import SqlServerGroups
from whimbrel.adapters.sql.global_.zones import SqlZones
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.placement.index_refresh import load
from whimbrel.adapters.sql.volumes import SqlVolumes
from whimbrel.agent.agent import HostAgent
from whimbrel.agent.console_relay import ConsoleListen
from whimbrel.bootstrap.agents_of_cells import agents_of_cells, cloud_bus
from whimbrel.bootstrap.cells import OpenCells, name_cells
from whimbrel.bootstrap.cloud_agreement import grant_secret
from whimbrel.bootstrap.cloud_bus import Answering
from whimbrel.bootstrap.fence_devices import fences_of
from whimbrel.bootstrap.first_flavors import write_down_flavors
from whimbrel.bootstrap.guest_networks import LocalNetworkControl, keeper_of
from whimbrel.bootstrap.hypervisors import hypervisors_of, ledger_stores
from whimbrel.bootstrap.identity import authentication
from whimbrel.bootstrap.images import distant_images, embedded_images
from whimbrel.bootstrap.network import distant_network, network_service
from whimbrel.bootstrap.notifications import announcer_of
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.process_base import ProcessBase, Start, registered
from whimbrel.bootstrap.quotas import quotas_of
from whimbrel.bootstrap.registration import guarded
from whimbrel.bootstrap.vendor_data_services import vendor_data_of
from whimbrel.bootstrap.volumes import distant_volumes, embedded_volumes
from whimbrel.conductor.conductor import Conductor
from whimbrel.conductor.parts import engine_parts
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import HostName
from whimbrel.embedded.image.in_process import LocalImages
from whimbrel.embedded.network.placement_reporter import report
from whimbrel.hosts.control_plane_service import ControlPlaneService, NoNetworks
from whimbrel.hosts.image_grants import ImageGrants
from whimbrel.hosts.registrar import Registrar
from whimbrel.hosts.stored_nics import StoredNics
from whimbrel.placement.provider_trees import StoredTrees
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.ports.meter import Meter
from whimbrel.ports.services.images import Images
from whimbrel.ports.wake_ups import NoWakeUps
from whimbrel.saga.engine import Engine
from whimbrel.scheduling.fleet import KnownFleet
from whimbrel.servers.devices.recorded_volumes import RecordedVolumes
from whimbrel.settings import SimulatedHost


async def open_process(start: Start) -> Process:
    """Open a process of a cloud: `up`, an `api` or a `conductor`. On any failure, all open resources are closed.

    Raises: Invalid: the settings do not fit the stored data; Refused: another process has the role, or a store has
    another version; Unavailable: a database of the cloud itself is unreachable.
    """
    async with AsyncExitStack() as opened:
        process = await _opened(await registered(start, opened))
        await _start(process)
        process.closing = opened.pop_all()
    return process


async def _opened(base: ProcessBase) -> Process:
    """Create all parts of a process."""
    role, config, clock, opened = base.start.role, base.start.config, base.clock, base.opened
    database, global_, registration = base.database, base.global_, base.registration
    ids = RandomIds()
    auth = authentication(base)
    clients, external = auth.clients, auth.external
    image_service = embedded_images(base) if role.has_images else None
    images: Images = LocalImages(image_service) if image_service else await distant_images(clients, external)
    placement = SqlPlacement(database("placement"), Random())
    hypervisors, local = await _own_agents(base, images) if role.has_hosts else ({}, {})
    secret_of_grants = await grant_secret(base.keep)
    bus = await cloud_bus(base, lambda: cells)
    buses = await agents_of_cells(base, local, bus)
    aggregates, infos, zones = SqlAggregates(global_), SqlCells(global_), SqlZones(global_)
    cells = OpenCells(infos, base.start.url, buses, clock, base.databases, migrates=role.migrates)
    opened.push_async_callback(cells.close)
    networks = None
    if "network" not in config.external:
        nics, store = StoredNics(cells, clock), SqlNetworks(database("network"))
        networks = await network_service(nics, clients, store, clock, ids)
    embedded = None
    if role.has_volumes:
        users = RecordedVolumes(SqlDirectory(global_), cells)
        volumes = SqlVolumes(database("volumes"))
        embedded = await embedded_volumes(
            config, base.start.home, volumes, images, auth.identity, clients, clock, ids, users, zones
        )
    meter = Meter()
    cloud = Cloud(
        clock=clock,
        ids=ids,
        journal=SqlJournal(global_, SAGAS, config.rules.notifications.enabled),
        directory=SqlDirectory(global_),
        cells=cells,
        cell_infos=infos,
        host_keys=SqlHostKeys(global_),
        console_tokens=SqlConsoleTokens(global_),
        image_fetches=SqlImageFetches(global_),
        fleets=KnownFleet(cells, infos, aggregates, clock, config.rules),
        placement=timed(placement, meter),
        images=images,
        network=networks.client if networks else distant_network(external),
        volumes=embedded.client if embedded else await distant_volumes(clients, external),
        flavors=SqlFlavors(global_),
        keypairs=SqlKeypairs(global_),
        quotas=quotas_of(config, auth, global_, clock),
        aggregates=aggregates,
        server_groups=SqlServerGroups(global_),
        zones=zones,
        restores=SqlRestores(global_),
        maintenances=SqlMaintenances(global_),
        processes=registration.processes,
        rules=config.rules,
        meter=meter,
        fences=fences_of(config),
        vendor_data=await vendor_data_of(config, auth.token, opened),
    )
    # An external network service reports to Placement itself.
    registrar = Registrar(cloud, partial(report, StoredTrees(placement)) if networks else _report_nothing)
    host_states = networks.host_states if networks else NoNetworks()
    wake_ups = bus.wake_ups if bus else NoWakeUps()
    if bus and (role.has_front_ends or role.has_conductor):
        image_url = auth.urls.image_relay if "image" in config.external else auth.urls.image
        grants = ImageGrants(cloud, image_url, secret_of_grants)
        answering = ControlPlaneService(cloud, registrar, grants, host_states)
        bus.answering = Answering(answering, cloud.host_keys)
    parts = engine_parts(
        cloud,
        registration.record.id,
        Random(),
        known_to_all=registration.known_to_all,
        heeded_by_all=registration.heeded_by_all,
    )
    parts = replace(parts, wake_conductor=wake_ups.wake)
    conducting = None
    if role.has_conductor:
        conducting = Conductor(cloud, parts, predecessors=registration.predecessors, wake_ups=wake_ups)
    here = LocalNetworkControl(cloud, host_states)
    settings_of = {host.name: host for _, host in config.hosts()}
    keepers = [await keeper_of(settings_of[host], agent, here, clock, opened) for host, agent in local.items()]
    for agent in local.values():
        opened.push_async_callback(agent.close)
    if conducting:
        opened.push_async_callback(conducting.close)
    announcer = None
    if role.has_conductor:
        announcer = announcer_of(config.notifications, cloud, global_, base.keep, registration.record.id)
    if announcer:
        opened.push_async_callback(announcer.close)
    return Process(
        role=role,
        config=config,
        cloud=cloud,
        cells=cells,
        identity=auth.identity,
        own_accounts=auth.accounts,
        external=external,
        urls=auth.urls,
        image_service=image_service,
        secret_of_grants=secret_of_grants,
        bus=bus,
        placement=placement,
        registration=registration,
        health=base.health,
        engine=conducting.engine if conducting else Engine(parts),
        conductor=conducting,
        announcer=announcer,
        agents=local,
        hypervisors=hypervisors,
        registrar=registrar,
        embedded_network=networks,
        network_keepers=[keeper for keeper in keepers if keeper],
        embedded_volumes=embedded,
    )


async def _own_agents(
    base: ProcessBase, images: Images
) -> tuple[dict[HostName, Hypervisor], dict[HostName, HostAgent]]:
    """Create the hypervisors and agents of the hosts in the settings."""
    start, check = base.start, base.registration.check
    keep = guarded(base.keep, check)
    made = hypervisors_of(start.config, start.home, keep, base.clock, images)
    hypervisors = {host: guarded(hypervisor, check) for host, hypervisor in made.items()}
    ledger_of = await ledger_stores(start.config, start.home, base.databases, keep, base.opened)
    listen_at = {
        HostName(host.name): ConsoleListen(host.console_address, host.console_port) for _, host in start.config.hosts()
    }
    simulated = {host.name for _, host in start.config.hosts() if isinstance(host, SimulatedHost)}
    agents = {
        host: HostAgent(
            host, hypervisor, guarded(ledger_of(host), check), images, base.clock,
            console_at=listen_at[host], effects_in_store=host in simulated,
        )
        for host, hypervisor in hypervisors.items()
    }  # fmt: skip
    return hypervisors, agents


async def _report_nothing(_: Sequence[HostNet]) -> None:
    """Implements hosts.registrar.ReportNics."""


async def _start(process: Process) -> None:
    """Read the stored data, and register the hosts of the settings. Raises: Invalid; Unavailable."""
    cloud, cells = process.cloud, process.cells
    await load(process.placement, cloud.clock)
    if process.role.has_hosts:
        await name_cells(process.config, cloud)
    await cells.open()
    await process.check_hosts(cells.up)
    if process.embedded_volumes:
        await process.embedded_volumes.start()
    if process.image_service:
        await process.image_service.sweep()
    if process.role.has_hosts:
        await process.register(cells.up)
        await write_down_flavors(cloud)
    for each in cells.up:
        each.is_new = False
