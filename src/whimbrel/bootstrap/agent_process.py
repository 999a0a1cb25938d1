"""`whimbrel agent`: the agent of one host as a process on the host's own machine.

It has no database but a small one of its own in its directory, with the ledger of what it has obeyed, and it listens
to nothing but the bus, to which it connects by itself.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version

import structlog

from whimbrel.adapters.bus.account_keys import agent_logins
from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.nats_agents import serve_agent
from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.nats_control_plane import NatsControlPlane
from whimbrel.adapters.bus.nats_keys import read_claims
from whimbrel.adapters.bus.nats_subjects import admits_agent
from whimbrel.adapters.bus.verbs import VERBS
from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.lease_files import LeaseFiles, SystemBootClock, this_process
from whimbrel.adapters.openstack.granted_images import GrantedImages
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.key_value_store import SqlKeyValueStore
from whimbrel.agent.agent import HostAgent
from whimbrel.agent.console_relay import ConsoleListen
from whimbrel.agent.lease_holder import LeaseHolder
from whimbrel.agent.presence import Presence
from whimbrel.bootstrap.described_hosts import DescribedHost
from whimbrel.bootstrap.guest_networks import keeper_of
from whimbrel.bootstrap.hypervisors import hypervisor_of
from whimbrel.ports.hosts.control_plane import Welcome
from whimbrel.ports.services.images import Images
from whimbrel.settings import CloudConfig, LibvirtHost, SimulatedHost
from whimbrel.settings.agent_host import host_of_agent
from whimbrel.settings.agentdir import AgentDir
from whimbrel.settings.datadir import DataDir
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.remote_disks import serving as serving_disks

log = structlog.get_logger(__name__)

RENEW_CLAIMS_S = 7 * 24 * 3600.0
"""Claims that end within this time are renewed."""


@dataclass(frozen=True)
class AgentStart:
    """The parameters of an agent."""

    directory: AgentDir
    config: CloudConfig
    settings_name: str  # of the settings file, for errors
    insecure: bool = False  # connect to the bus without TLS to another machine

    def host(self) -> SimulatedHost | LibvirtHost:
        """Return the settings of the host. Raises: NotFound: it has not joined; Invalid."""
        membership = self.directory.membership()
        network = self.config.storage.network
        return host_of_agent(self.settings_name, self.config.host, membership.host, self.directory.path, network)


async def run_agent(start: AgentStart, on_ready: Callable[[Welcome], None]) -> None:
    """Serve until cancelled.

    Raises: Superseded: another agent of this host has replaced this one; Refused: the cloud does not admit it;
    NotFound: the host has not joined; Invalid: the settings.
    """
    directory, membership, settings = start.directory, start.directory.membership(), start.host()
    clock = SystemClock()
    async with AsyncExitStack() as opened:
        bus = await opened.enter_async_context(_bus(start))
        control = NatsControlPlane(
            bus,
            needs_claims=lambda: _claims_end_at(directory) < clock.now() + RENEW_CLAIMS_S or not _admits(directory),
            keep_claims=lambda jwt: _keep_claims(directory, bus, jwt),
        )
        store = await opened.enter_async_context(_store(directory))
        images: Images = GrantedImages(membership.host, control, _trusted(directory))
        world = SimulatedWorld()
        if isinstance(settings, SimulatedHost):
            await opened.enter_async_context(serving_disks(world, settings.address))
        hypervisor = hypervisor_of(
            settings, membership.cell, start.config.simulated, directory.path, store, clock, images, world
        )
        consoles = ConsoleListen(settings.console_address, settings.console_port)
        agent = HostAgent(
            membership.host, hypervisor, store, images, clock,
            console_at=consoles, effects_in_store=isinstance(settings, SimulatedHost),
        )  # fmt: skip
        opened.push_async_callback(agent.close)
        if keeper := await keeper_of(settings, agent, control, clock, opened):
            keeping = asyncio.create_task(keeper.run())
            opened.callback(keeping.cancel)

        def serve(session: int) -> AbstractAsyncContextManager[None]:
            return serve_agent(bus, membership.host, session, agent)

        presence = Presence(
            agent, control, DescribedHost(settings, hypervisor, clock).describe, hypervisor.metrics, serve, clock,
            release=version("whimbrel"), verbs=_verbs(), on_ready=on_ready, lease=_lease(settings, directory),
        )  # fmt: skip
        await presence.run()


@asynccontextmanager
async def _store(directory: AgentDir) -> AsyncIterator[SqlKeyValueStore]:
    """Open the agent's own database. Raises: Refused: another agent uses the directory, or it cannot be used."""
    with DataDir(directory.path).used_as("agent", "--dir"):
        url = f"sqlite:///{directory.path / 'db'}"
        prepare(url, "keep")
        database = open_database(url, "keep")
        try:
            yield SqlKeyValueStore(database)
        finally:
            await database.close()


def _lease(settings: SimulatedHost | LibvirtHost, directory: AgentDir) -> LeaseHolder | None:
    """Return the holder of the host's lease; None: the host does not fence itself, and has no lease left."""
    leases = LeaseFiles(directory.path)
    if settings.self_fence_s is None and leases.lease() is None:
        return None
    return LeaseHolder(settings.self_fence_s, leases, SystemBootClock(), this_process())


def _bus(start: AgentStart) -> BusConnection:
    """Return the connection to the bus, to be opened. Raises: Invalid: no TLS to another machine."""
    directory, membership = start.directory, start.directory.membership()
    servers = BusServers(urls=membership.bus_urls, ca_file=directory.ca_file, insecure=start.insecure)
    logins = agent_logins(membership.host, lambda: directory.seed().decode(), lambda: directory.membership().jwt)
    advice = f"if the host was retired or forgotten, invite it again with: whimbrel host invite {membership.host}"
    return BusConnection(servers, logins, f"agent of {membership.host}", advice=advice)


def _claims_end_at(directory: AgentDir) -> float:
    """Return when the claims of the host's key end; infinity: never."""
    return read_claims(directory.membership().jwt).exp or float("inf")


def _admits(directory: AgentDir) -> bool:
    """Check whether the claims of the host's key are for all that this release asks."""
    membership = directory.membership()
    return admits_agent(read_claims(membership.jwt).nats, membership.host)


def _keep_claims(directory: AgentDir, bus: BusConnection, jwt: str) -> None:
    """Store new claims; if the old ones were not enough, use them at once."""
    were_enough = _admits(directory)
    directory.renew(jwt)
    if not were_enough and _admits(directory):
        bus.reconnect()


def _trusted(directory: AgentDir) -> ssl.SSLContext:
    """Return the context for HTTPS: the authorities of the system, and that of the bus."""
    context = ssl.create_default_context()
    if directory.ca_file:
        context.load_verify_locations(directory.ca_file)
    return context


def _verbs() -> dict[str, tuple[str, ...]]:
    """Return the verbs of this release with their arguments."""
    return {name: verb.question.__struct_fields__ for name, verb in VERBS.items()}
