"""Simulated hosts with their agents, for the tests of agents, hypervisors and the bus."""

import asyncio

from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.agent.agent import HostAgent
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest import Capacity, GuestKey, GuestSpec, Order
from whimbrel.domain.ids import CellName, HostName, ProjectId, RunId, ServerId, Slot
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.agent import Agent
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.images import MemoryImages
from whimbrel.sim.world.phases import Times

IMAGE = "image-1"
H1, H2 = HostName("h1"), HostName("h2")


class SlowKeep(MemoryKeyValueStore):
    """Takes a while to write, counts, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.puts = 0
        self.fails = False

    async def put(self, space: str, key: str, value: bytes) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise Unavailable("the disk is full")
        self.puts += 1
        await super().put(space, key, value)

    async def replace(self, space: str, key: str, before: bytes | None, value: bytes) -> bool:
        await asyncio.sleep(0)
        if self.fails:
            raise Unavailable("the disk is full")
        done = await super().replace(space, key, before, value)
        self.puts += done
        return done


class Room:
    """Two hosts of one cell. What survives the death of all processes is `keep` and `images`."""

    def __init__(
        self,
        *,
        times: Times | None = None,
        clock: Clock | None = None,
        keep: KeyValueStore | None = None,
        images: MemoryImages | None = None,
        wait_s: float = 3.0,
    ) -> None:
        self.times = times or Times()
        self.clock = clock or JumpingClock()
        self.keep = keep or MemoryKeyValueStore()
        self.images = images or MemoryImages({IMAGE: b"tick"})
        self.wait_s = wait_s
        self.start_processes()

    def start_processes(self) -> None:
        """Start all agents and hypervisors anew on what they kept."""
        self.world = SimulatedWorld()
        self.hypervisors = {name: self.hypervisor(name) for name in (H1, H2)}
        self.agents = {
            name: HostAgent(name, hypervisor, self.keep, self.images, self.clock, self.wait_s)
            for name, hypervisor in self.hypervisors.items()
        }

    async def crash(self) -> None:
        """Kill all processes and start them again."""
        for agent in self.agents.values():
            await agent.close()
        self.start_processes()
        for agent in self.agents.values():
            await agent.open()

    def hypervisor(self, name: HostName, cell: str = "c1") -> SimulatedHypervisor:
        return SimulatedHypervisor(
            name,
            self.world,
            self.keep,
            self.times,
            self.clock,
            cell=CellName(cell),
            capacity=Capacity(vcpus=4, memory_mib=4096, disk_gib=40, hypervisor_type="simulated", hypervisor_version=1),
            images=self.images,
        )


def order(run: str = "run-1", epoch: int = 1, progress: int = 0, incarnation: int = 0) -> Order:
    return Order(RunId(run), epoch, progress, incarnation)


def spec(
    server: str = "server-1",
    slot: str = "run-1",
    *,
    memory_mib: int = 512,
    root_gib: int = 1,
    image_id: str | None = IMAGE,
) -> GuestSpec:
    return GuestSpec(
        key=GuestKey(ServerId(server), Slot(slot)),
        name=server,
        vcpus=1,
        memory_mib=memory_mib,
        root_gib=root_gib,
        image_id=image_id,
        project_id=ProjectId("project-1"),
    )


async def boot(agent: Agent, what: GuestSpec, by: Order) -> None:
    """Build a guest and start it."""
    await agent.prepare(by, what)
    while not (await agent.build_disk(by, what)).finished:
        pass
    await agent.define(by, what)
    await agent.start(by, what.key)
