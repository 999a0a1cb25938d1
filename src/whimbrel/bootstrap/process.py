"""One process of a cloud: its open resources, and its background work."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from whimbrel.adapters.sql.identity.store import SqlIdentity
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.placement.index_refresh import keep_up
from whimbrel.agent.agent import HostAgent
from whimbrel.agent.network_keeper import NetworkKeeper
from whimbrel.bootstrap.cells import OpenCell, OpenCells
from whimbrel.bootstrap.cloud_bus import CloudBus
from whimbrel.bootstrap.described_hosts import DescribedHost
from whimbrel.bootstrap.health import Health
from whimbrel.bootstrap.network import NetworkService
from whimbrel.bootstrap.notifications import announce_for_ever
from whimbrel.bootstrap.registration import Registration
from whimbrel.bootstrap.roles import Role
from whimbrel.bootstrap.service_urls import ServiceUrls
from whimbrel.bootstrap.volumes import EmbeddedVolumes
from whimbrel.conductor.conductor import Conductor
from whimbrel.domain.errors import Invalid, WorldError
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.embedded.image.service import ImageService
from whimbrel.hosts.registrar import Registrar, check_places
from whimbrel.hosts.zoning import put_into_zones
from whimbrel.notifications.announcer import Announcer
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.ports.services.identity import Identity
from whimbrel.saga.engine import Engine
from whimbrel.settings import CloudConfig

if TYPE_CHECKING:
    from whimbrel.bootstrap.external_services import ExternalServices

log = structlog.get_logger(__name__)

HEARTBEAT_S = 10.0
HOUR_S = 3600.0
WEEK_S = 7 * 24 * HOUR_S


@dataclass
class Process:
    """All open resources of one process of a cloud."""

    role: Role
    config: CloudConfig
    cloud: Cloud
    cells: OpenCells
    identity: Identity
    own_accounts: SqlIdentity | None  # of the embedded identity service; None: others run one
    external: "ExternalServices | None"  # None: all services are embedded
    urls: ServiceUrls
    image_service: ImageService | None  # None: it is in another process
    secret_of_grants: bytes  # with which hosts' access to images is signed
    bus: CloudBus | None  # None: all agents are in the process `up`
    placement: SqlPlacement
    registration: Registration
    health: Health
    engine: Engine
    conductor: Conductor | None
    announcer: Announcer | None  # None: other processes send notifications, or none does
    agents: Mapping[HostName, HostAgent]
    hypervisors: Mapping[HostName, Hypervisor]
    registrar: Registrar
    embedded_network: NetworkService | None  # None: others run a network service
    network_keepers: Sequence[NetworkKeeper]  # of the hosts of this process that make their own networks
    embedded_volumes: EmbeddedVolumes | None  # None: they are in another process
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)  # all resources, closed in reverse order

    @property
    def accounts(self) -> SqlIdentity:
        """Return the accounts of the embedded identity service."""
        assert self.own_accounts, "asked only if the identity service is embedded"
        return self.own_accounts

    @property
    def network_service(self) -> NetworkService:
        """Return the embedded network service."""
        assert self.embedded_network, "asked only if the network service is embedded"
        return self.embedded_network

    async def run(self) -> None:
        """Do the background work until cancelled: drive runs, renew hosts' last-seen times, delete old data."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.registration.run())
            if self.conductor:
                group.create_task(self.conductor.serve())
            if self.announcer:
                group.create_task(announce_for_ever(self.announcer))
            if self.agents:
                group.create_task(self._beat())
            if self.embedded_volumes:
                group.create_task(self.embedded_volumes.run())
            if self.embedded_network:
                group.create_task(self.embedded_network.run())
            for keeper in self.network_keepers:
                group.create_task(keeper.run())
            group.create_task(self._forget_old())
            group.create_task(keep_up(self.placement, self.cloud.clock))
            group.create_task(self.cells.watch(self.arrived))

    async def register(self, cells: Sequence[OpenCell]) -> None:
        """Register the hosts of these cells from the settings, if the hosts are here. Idempotent."""
        if not self.hypervisors:
            return
        rows = {host.name: host for each in cells for host in await self._register_hosts(each)}
        done = {each.info.name for each in self.cells.up} - {each.info.name for each in cells}  # operators decide there
        zones = {HostName(host.name): host.zone for cell, host in self.config.hosts() if cell.name not in done}
        await put_into_zones(self.cloud, zones, rows)
        await self.placement.provider_index()  # includes the providers just registered

    async def _register_hosts(self, cell: OpenCell) -> Sequence[Host]:
        """Register the hosts of a cell from the settings; return all hosts of the cell."""
        told = [host for each, host in self.config.hosts() if each.name == cell.info.name]
        hypervisors = [self.hypervisors[HostName(host.name)] for host in told]
        clock = self.cloud.clock
        found = await asyncio.gather(
            *(DescribedHost(host, its, clock).describe() for host, its in zip(told, hypervisors, strict=True))
        )
        await self.registrar.register_all(cell.info.name, found)
        return await cell.cell.hosts.all()

    def _hosts_of(self, cell: OpenCell) -> list[HostName]:
        return [HostName(host.name) for each, host in self.config.hosts() if each.name == cell.info.name]

    async def check_hosts(self, cells: Sequence[OpenCell]) -> None:
        """Raises: Invalid: a host of one of these cells' settings is known elsewhere, or has an agent elsewhere."""
        if self.role.has_hosts:
            joined = {key.host for key in await self.cloud.host_keys.all() if key.retired_at is None}
            for host in sorted(joined.intersection(host for each in cells for host in self._hosts_of(each))):
                raise Invalid(
                    f"host '{host}' has joined with an agent of its own, which would serve it beside this process:"
                    f" remove it from the settings, or retire it first with: whimbrel host retire {host}"
                )
        index = await self.placement.provider_index()
        providers = {node.provider.name: node.provider.uuid for node in index.nodes.values()}
        for each in cells:
            await check_places(each.cell, self._hosts_of(each), providers)

    async def arrived(self, cell: OpenCell) -> None:
        """Register the hosts of a cell that was down at start, or was added later."""
        await self.check_hosts([cell])
        await self.register([cell])

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self.sign_of_life()

    async def sign_of_life(self) -> None:
        """Record which hosts answer now, in the cells that are up."""
        await asyncio.gather(*(self._sign_of_life(each) for each in self.cells.up))

    async def _sign_of_life(self, cell: OpenCell) -> None:
        asked = self._hosts_of(cell)
        answers = await asyncio.gather(*(_answers(self.hypervisors[host]) for host in asked))
        answering = [host for host, answer in zip(asked, answers, strict=True) if answer]
        metrics = await self._metrics(answering)
        try:
            await cell.cell.hosts.seen(answering, self.cloud.clock.now())
            await cell.cell.hosts.tell(metrics)
        except WorldError as trouble:
            log.warning("no heartbeat was written", cell=cell.info.name, reason=trouble.reason)

    async def _metrics(self, hosts: Sequence[HostName]) -> dict[HostName, dict[str, float]]:
        """Return the metrics of hosts, if a rule uses them."""
        if not self.cloud.rules.scheduler.metrics_weight_setting:
            return {}
        told = await asyncio.gather(*(_metrics(self.hypervisors[host]) for host in hosts))
        return dict(zip(hosts, told, strict=True))

    async def _forget_old(self) -> None:
        """Delete the fences of runs that ended a week ago: none of their orders can still be in transit."""
        done_until: dict[str, float] = {}
        while True:
            await asyncio.sleep(HOUR_S)
            await self.forget_before(self.cloud.clock.now() - WEEK_S, done_until)

    async def forget_before(self, before: float, done_until: dict[str, float]) -> None:
        """Delete the fences of runs that ended before, wherever they are stored; unreachable stores are retried
        later.

        done_until: store -> the time before which its fences are deleted; updated here.
        """
        known = {f"cell {name}": cell.servers.forget_fences for name, cell in self.cloud.cells.items()}
        for name, forget in {"placement": self.placement.forget_fences, **known}.items():
            with _errors_logged(name):
                if runs := await self.cloud.journal.ended(done_until.get(name, 0.0), before):
                    await forget(runs)
                done_until[name] = before
        for host, agent in self.agents.items():
            with _errors_logged(f"host {host}"):
                await agent.prune(before)

    async def close(self) -> None:
        await self.closing.aclose()


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


@contextmanager
def _errors_logged(where: str) -> Iterator[None]:
    """Log WorldErrors and continue."""
    try:
        yield
    except WorldError as trouble:
        log.warning("old rows were not deleted", where=where, reason=trouble.reason)
