"""A whole cloud in one process: real stores in memory, real agents, simulated hosts, a clock that jumps.

The world keeps what survives a crash of the control plane: databases, key-value stores, hosts. `engine` makes the rest.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from random import Random
from typing import Any

from msgspec.structs import replace

from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.adapters.sql.cell.hosts import SqlHosts
from whimbrel.adapters.sql.cell.pci_devices import SqlDevices
from whimbrel.adapters.sql.cell.servers import SqlServers
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
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
from whimbrel.adapters.sql.global_.processes import SqlProcesses
from whimbrel.adapters.sql.global_.quotas import SqlQuotas
from whimbrel.adapters.sql.global_.restores import SqlRestores
from whimbrel.adapters.sql.global_.server_groups import SqlServerGroups
from whimbrel.adapters.sql.global_.zones import SqlZones
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.agent.agent import HostAgent
from whimbrel.conductor.parts import engine_parts
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import Capacity
from whimbrel.domain.host import Host, Zone
from whimbrel.domain.ids import CellName, HostName, ProjectId, ProviderId, ServerId, UserId
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.placement.inventory import of_host
from whimbrel.ports.cloud import Cell, Cloud, Requester, Rules
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.saga.parts import EngineParts
from whimbrel.saga.step import SagaRegistry
from whimbrel.scheduling.fleet import KnownFleet
from whimbrel.sim.world import equipment
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.ids import SeededIds
from whimbrel.sim.world.images import MemoryImages
from whimbrel.sim.world.network import SimulatedNetwork
from whimbrel.sim.world.phases import Times
from whimbrel.sim.world.power_switch import PowerSwitches
from whimbrel.sim.world.volumes import SimulatedVolumes

PROJECT = ProjectId("11111111111141118111111111111111")
USER = UserId("22222222222242228222222222222222")
CELL = CellName("c1")
IMAGE = "33333333-3333-4333-8333-333333333333"

SMALL = Flavor(flavor_id="1", name="small", vcpus=1, memory_mib=512, root_gib=1)
LARGE = Flavor(flavor_id="2", name="large", vcpus=2, memory_mib=1024, root_gib=2)
FLAVORS = (SMALL, LARGE)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Parameters of a world."""

    cells: Mapping[str, Sequence[str]] = field(default_factory=lambda: {CELL: ("h1", "h2", "h3")})  # cell -> hosts
    vcpus: int = 4
    memory_mib: int = 4096
    disk_gib: int = 40
    rules: Rules = field(default_factory=lambda: Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0))
    times: Times = field(default_factory=Times)
    seed: int = 0
    cpu_infos: Mapping[str, str] = field(default_factory=dict)  # host -> its processor; none: unknown
    equipped: bool = False  # with a network, a volume, and a NIC with bandwidth on each host
    fenced: bool = False  # with a fence device for each host
    seen_at: float = 1e12  # by default the simulated clock jumps, and hosts never miss a heartbeat
    self_fence_s: float | None = None  # how long a host may be cut off before it stops its guests
    functions: bool = False  # also with virtual functions on each host, and a port for one

    def homes(self) -> Iterator[tuple[HostName, CellName]]:
        """Yield each host with its cell."""
        for cell, hosts in self.cells.items():
            for host in hosts:
                yield HostName(host), CellName(cell)


@dataclass
class Remains:
    """State that survives a crash of the control plane: databases, hosts, other services, time."""

    databases: dict[str, SqliteDatabase]
    store: MemoryKeyValueStore
    clock: JumpingClock
    ids: SeededIds
    images: MemoryImages
    network: SimulatedNetwork
    volumes: SimulatedVolumes

    @classmethod
    async def new(cls, seed: int, cells: Iterable[str] = (CELL,)) -> "Remains":
        names = ("global", "placement", *(f"cell_{cell}" for cell in cells))
        databases = {name: SqliteDatabase(None) for name in names}
        for name, database in databases.items():
            await create_all(database, name.split("_")[0])
        ids, images = SeededIds(seed), MemoryImages({IMAGE: b"tick"})
        return cls(
            databases, MemoryKeyValueStore(), JumpingClock(), ids, images, SimulatedNetwork(ids), SimulatedVolumes(ids)
        )

    def copy(self) -> "Remains":
        databases = {name: database.copy() for name, database in self.databases.items()}
        clock, ids, images = JumpingClock(self.clock.now()), self.ids.copy(), self.images.copy()
        return Remains(databases, self.store.copy(), clock, ids, images, self.network.copy(ids), self.volumes.copy(ids))


class ReachableAgents(dict[HostName, HostAgent]):
    """The agents that answer now."""

    def __init__(self, agents: Mapping[HostName, HostAgent], disconnected: Collection[HostName]) -> None:
        super().__init__(agents)
        self._disconnected = disconnected

    def get(self, host: HostName, default: Any = None) -> Any:
        return default if host in self._disconnected else super().get(host, default)


class World:
    """A simulated cloud with the flavors SMALL and LARGE. Make it with `await World.build(...)`.

    Its cells share the global database, placement and the services, and nothing else.
    """

    def __init__(self, plan: Plan, remains: Remains) -> None:
        self.plan = plan
        self.remains = remains
        self.registry: SagaRegistry = SAGAS  # sagas that its engines run
        self.disconnected: set[HostName] = set()  # hosts whose agents do not answer
        self.simulated = SimulatedWorld()
        self.placement = SqlPlacement(remains.databases["placement"])
        self.images = remains.images
        self.hypervisors = {host: self._hypervisor(host, cell) for host, cell in plan.homes()}
        fenced = [host for host, _ in plan.homes() if plan.fenced]
        self.fences = PowerSwitches(fenced, self.simulated, remains.clock)
        self.cloud = self._cloud()

    @classmethod
    async def build(
        cls, hosts: Sequence[str] = ("h1", "h2", "h3"), cells: Mapping[str, Sequence[str]] | None = None, **plan: Any
    ) -> "World":
        """Build a world. hosts: in one cell, unless `cells` (cell -> hosts) is given. plan: further fields of Plan."""
        given = {name: value for name, value in plan.items() if value is not None}
        planned = Plan(cells=cells or {CELL: tuple(hosts)}, **given)
        world = cls(planned, await Remains.new(planned.seed, planned.cells))
        await world._fill()
        return world

    async def copy(self) -> "World":
        """Return a copy of the world without the memory of its processes."""
        return await self._continued_by(World(self.plan, self.remains.copy()))

    async def with_times(self, times: Times) -> "World":
        """Return a world on the same remains whose hosts take these times."""
        return await self._continued_by(World(with_fields(self.plan, times=times), self.remains))

    async def _continued_by(self, world: "World") -> "World":
        """Bring the simulated hosts of another world into the state of this one's."""
        world.simulated.double_runs += self.simulated.double_runs
        world.simulated.dirty_rates |= self.simulated.dirty_rates
        for host in self.disconnected:
            world.disconnect(host)
        for host, hypervisor in world.hypervisors.items():
            await hypervisor.guests()  # a hypervisor reads its store on first use
            hypervisor.refusing |= self.hypervisors[host].refusing
        world.simulated.off |= self.simulated.off
        return world

    def _hypervisor(self, name: HostName, cell: CellName) -> SimulatedHypervisor:
        plan, remains = self.plan, self.remains
        return SimulatedHypervisor(
            name,
            self.simulated,
            remains.store,
            plan.times,
            remains.clock,
            cell=cell,
            capacity=Capacity(
                vcpus=plan.vcpus,
                memory_mib=plan.memory_mib,
                disk_gib=plan.disk_gib,
                hypervisor_type="simulated",
                hypervisor_version=1,
                cpu_info=plan.cpu_infos.get(name, "{}"),
            ),
            images=self.images,
        )

    def _cloud(self) -> Cloud:
        remains, global_ = self.remains, self.remains.databases["global"]
        cells = {name: self._cell(name) for name in map(CellName, self.plan.cells)}
        aggregates, infos = SqlAggregates(global_), SqlCells(global_)
        return Cloud(
            clock=remains.clock,
            ids=remains.ids,
            journal=SqlJournal(global_, SAGAS, self.plan.rules.notifications.enabled),
            directory=SqlDirectory(global_),
            cells=cells,
            cell_infos=infos,
            host_keys=SqlHostKeys(global_),
            console_tokens=SqlConsoleTokens(global_),
            image_fetches=SqlImageFetches(global_),
            fleets=KnownFleet(cells, infos, aggregates, remains.clock, self.plan.rules),
            placement=self.placement,
            images=self.images,
            network=remains.network,
            volumes=remains.volumes,
            flavors=SqlFlavors(global_),
            keypairs=SqlKeypairs(global_),
            quotas=SqlQuotas(global_),
            aggregates=aggregates,
            server_groups=SqlServerGroups(global_),
            zones=SqlZones(global_),
            restores=SqlRestores(global_),
            maintenances=SqlMaintenances(global_),
            processes=SqlProcesses(global_, self.remains.clock),
            rules=self.plan.rules,
            fences=self.fences,
        )

    def _agent(self, host: HostName) -> HostAgent:
        remains = self.remains
        return HostAgent(host, self.hypervisors[host], remains.store, self.images, remains.clock)

    def _cell(self, name: CellName) -> Cell:
        database = self.remains.databases[f"cell_{name}"]
        agents = {host: self._agent(host) for host, cell in self.plan.homes() if cell == name}
        return Cell(
            name=name,
            servers=SqlServers(database),
            hosts=SqlHosts(database, name),
            devices=SqlDevices(database),
            agents=LocalAgents(ReachableAgents(agents, self.disconnected)),
        )

    async def _fill(self) -> None:
        plan, cloud = self.plan, self.cloud
        default = cloud.rules.default_availability_zone
        await cloud.zones.ensure(Zone(id=default, name=default, created_at=cloud.clock.now()))
        for cell in cloud.cells:
            await cloud.cell_infos.ensure(CellInfo(name=cell, created_at=cloud.clock.now()))
        for flavor in FLAVORS:
            await cloud.flavors.create(flavor, cloud.clock.now())
        for name, cell in plan.homes():
            host = Host(
                name=name,
                cell=cell,
                id=ProviderId(cloud.ids.uuid()),
                service_id=cloud.ids.uuid(),
                driver="simulated",
                vcpus=plan.vcpus,
                memory_mib=plan.memory_mib,
                disk_gib=plan.disk_gib,
                cpu_info=plan.cpu_infos.get(name, "{}"),
                seen_at=plan.seen_at,
                self_fence_s=plan.self_fence_s,
            )
            await cloud.cell(cell).hosts.register(host)
            if plan.self_fence_s:
                await cloud.cell(cell).hosts.raise_sessions({name: 1})
            await cloud.placement.register_host(host.id, name, of_host(host, cloud.rules))
            if plan.equipped:
                await equipment.add_host_nic(self.placement, name, host.id, ProviderId(cloud.ids.uuid()))
            if plan.functions:
                await equipment.add_functions(cloud.cell(cell), self.placement, host, cloud.ids)
        if plan.equipped:
            equipment.add_services(self.remains.network, self.remains.volumes, PROJECT)
        if plan.functions:
            equipment.add_direct_port(self.remains.network, PROJECT)

    # Hosts

    def disconnect(self, host: HostName) -> None:
        """Disconnect the agent of a host. Its guests continue to run."""
        self.disconnected.add(host)

    async def lose_host(self, host: HostName) -> None:
        """Make a host lose its power."""
        self.disconnect(host)
        await self.hypervisors[host].lose_power()

    def reconnect(self, host: HostName) -> None:
        """Make the agent of a host answer again. Nothing starts by itself."""
        self.disconnected.discard(host)

    # The control plane: lost in a crash

    def forget_memory(self) -> None:
        """Drop all cached reads of databases: their contents were replaced."""
        self.placement = SqlPlacement(self.remains.databases["placement"])
        self.cloud = self._cloud()

    def engine_parts(self, name: str, cloud: Cloud | None = None) -> EngineParts:
        """Return the parts of an engine on this world, or on `cloud`, whose ports may be wrapped."""
        return engine_parts(cloud or self.cloud, name, Random(name), self.registry)

    def engine(self, name: str, cloud: Cloud | None = None, **parts: Any) -> Engine:
        """Make an engine; `parts` replace its own."""
        return Engine(replace(self.engine_parts(name, cloud), **parts))

    async def settle(self, engine: Engine, rounds: int = 60) -> None:
        """Run all that is due, advancing the time, until only runs that wait for a verdict or a delete are open."""
        clock = self.cloud.clock
        for _ in range(rounds):
            await clock.sleep(engine.lease_s + 1)
            runs = await self.cloud.journal.take(engine.name, clock.now(), engine.lease_s, 1000)
            if not runs and not await self._open():
                return
            for run in runs:
                await engine.drive(run)
        raise AssertionError(f"still open after {rounds} rounds: {await self._open()}")

    async def _open(self) -> list[tuple[str, str, str, str | None]]:
        runs = await self.cloud.journal.find(RunFilter(only_open=True))
        return [
            (run.saga, run.at, run.way, run.problem or run.message)
            for run in runs
            if run.state == "open" and not run.queued
        ]

    # Users

    def requester(self) -> Requester:
        return Requester(user_id=USER, project_id=PROJECT, request_id=f"req-{self.cloud.ids.uuid()}")

    def new_server(self, name: str, flavor: Flavor = SMALL) -> Server:
        now = self.cloud.clock.now()
        return Server(
            id=ServerId(self.cloud.ids.uuid()),
            project_id=PROJECT,
            user_id=USER,
            name=name,
            hostname=name,
            flavor=flavor,
            image_id=IMAGE,
            spec=RequestSpec(),
            created_at=now,
            updated_at=now,
        )

    async def close(self) -> None:
        for database in self.remains.databases.values():
            await database.close()
