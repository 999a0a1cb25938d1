"""A host that fences itself, in simulated time: its agent, its watchdog, a guest, and the cloud at the other end.

The clock of the host may be slow or fast. Messages are lost, late, or answered too late. Agents hang and die.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from random import Random
from typing import Any

from tests.contracts.control_planes import join
from tests.host_room import boot, order, spec
from tests.unit.hosts.descriptions import NEW, description, registrar
from tests.unit.hosts.no_grants import NoGrants
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.agent.agent import HostAgent
from whimbrel.agent.lease_holder import LeaseHolder
from whimbrel.agent.lease_watchdog import Watchdog
from whimbrel.agent.presence import Presence
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest import Capacity
from whimbrel.domain.host import Host
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.ids import CellName
from whimbrel.domain.self_fencing import self_fenced_at
from whimbrel.hosts.control_plane_service import ControlPlaneService
from whimbrel.ports.hosts.leases import ProcessId
from whimbrel.sim.cloud.cloud import IMAGE, World
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.loop import LoopClock, Process, SimulatedLoop, new_loop
from whimbrel.sim.world.memory_leases import MemoryLeases, SimulatedBootClock
from whimbrel.sim.world.phases import Times

T = 60.0
CELL = CellName("c1")
SPEC = spec(image_id=IMAGE)


class Wire:
    """The control plane as the agent reaches it."""

    def __init__(self, control: ControlPlaneService, clock: LoopClock) -> None:
        self._control = control
        self._clock = clock
        self.is_cut = False
        self.loses_answers = False
        self.takes_s = 0.0  # there, and back again

    def __getattr__(self, name: str) -> Any:
        async def ask(*arguments: Any) -> Any:
            # Of a process of its own: a question that is on its way arrives, whatever becomes of the agent.
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimulatedLoop)
            return await asyncio.shield(loop.spawn(Process("wire"), self._carry(name, arguments)))

        return ask

    async def _carry(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if self.is_cut:
            await self._clock.sleep(2.0)
            raise Unavailable("cut off")
        await self._clock.sleep(self.takes_s)
        answer = await getattr(self._control, name)(*arguments)
        if self.loses_answers or self.is_cut:
            await self._clock.sleep(30.0)
            raise Unavailable("the answer is lost")
        await self._clock.sleep(self.takes_s)
        return answer


class FencedHost:
    """Its agent and its watchdog are processes. self_fence_s: the setting at the next start of an agent."""

    def __init__(self, world: World, clock: LoopClock, rate: float) -> None:
        self.world, self.clock = world, clock
        self.self_fence_s: float | None = T
        self.answers = True
        self.wire = Wire(ControlPlaneService(world.cloud, registrar(world), NoGrants()), clock)
        self.leases = MemoryLeases()
        self.boot_clock = SimulatedBootClock(clock, rate)
        self.hypervisor_hangs = False
        self.hypervisor_bug: Exception | None = None
        self.agent_never_ends = False  # it waits for a disk that hangs
        self.kills = 0
        self.agent_dies_in_s = 0.0
        self._store = MemoryKeyValueStore()
        self._hosts = SimulatedWorld()
        self._processes: dict[int, Process] = {}
        self.guests = self._hypervisor()
        self.agent: HostAgent | None = None
        self.watchdog = Process("watchdog")

    def _hypervisor(self) -> SimulatedHypervisor:
        capacity = Capacity(vcpus=4, memory_mib=4096, disk_gib=40, hypervisor_type="simulated", hypervisor_version=1)
        return SimulatedHypervisor(
            NEW, self._hosts, self._store, Times(), self.clock, capacity=capacity, cell=CELL, images=self.world.images
        )

    # Processes

    def start_agent(self) -> "asyncio.Task[None]":
        number = len(self._processes) + 1
        process = self._processes[number] = Process(f"agent {number}")
        agent = HostAgent(NEW, self.guests, self._store, self.world.images, self.clock)
        holder = LeaseHolder(self.self_fence_s, self.leases, self.boot_clock, ProcessId(pid=number, started=0))

        @asynccontextmanager
        async def serve(session: int) -> AsyncIterator[None]:
            self.agent = agent
            try:
                yield
            finally:
                self.agent = None

        async def described() -> HostDescription:
            return description(NEW, answers=self.answers)

        async def metrics() -> dict[str, float]:
            if not self.answers:
                raise Unavailable("libvirt does not answer")
            return {}

        presence = Presence(
            agent, self.wire, described, metrics, serve, self.clock, release="1", verbs={}, lease=holder
        )  # fmt: skip
        return self._spawn(process, presence.run())

    def start_watchdog(self) -> None:
        self.watchdog = Process("watchdog")
        work = Watchdog(self.leases, self.boot_clock, self.clock, self._seen, self._end_agent, self._kill_guests).run()
        self._spawn(self.watchdog, work)

    @property
    def process(self) -> Process:
        return self._processes[len(self._processes)]

    def kill_agent(self) -> None:
        self.process.is_dead = True
        self.agent = None

    def hang_agent(self) -> None:
        self.process.is_frozen = True
        self.agent = None

    def _spawn(self, process: Process, work: Any) -> "asyncio.Task[None]":
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        return loop.spawn(process, work)

    def _seen(self) -> SimulatedHypervisor:
        if self.hypervisor_hangs:
            raise Unavailable("libvirt hangs")
        if self.hypervisor_bug:
            raise self.hypervisor_bug
        return self.guests

    async def _end_agent(self, process: ProcessId) -> None:
        if self.agent_never_ends:
            raise Unavailable(f"process {process.pid} does not end")
        if not self._processes[process.pid].is_dead:
            await self.clock.sleep(self.agent_dies_in_s)
        self._processes[process.pid].is_dead = True
        if process.pid == len(self._processes):
            self.agent = None

    async def _kill_guests(self) -> list[str]:
        self.kills += 1
        await self.guests.lose_power()
        return ["all"]

    # What is true

    async def boot(self) -> None:
        """Order the agent to start the guest, as an order of the cloud does."""
        assert self.agent
        await boot(self.agent, SPEC, order())

    @property
    def is_live(self) -> bool:
        return any(guest.is_live for guest in self.guests.observed())

    async def row(self) -> Host:
        return await self.world.cloud.cell(CELL).hosts.get(NEW)

    async def counted_at(self) -> float | None:
        """Return since when the cloud counts on it that the host has fenced itself."""
        return self_fenced_at(await self.row(), self.clock.now())

    async def wait(self, seconds: float) -> None:
        """Let time pass; at each second the cloud must not count on what is not true."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            await self.clock.sleep(min(1.0, end - self.clock.now()))
            assert not (self.is_live and await self.counted_at()), "the cloud counts on it, and the guest runs"


def simulated(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a story in simulated time. What its processes still do at its end is left undone."""

    @wraps(story)
    def test(**given: Any) -> None:
        new_loop(0).run_until_complete(story(**given))

    return test


@asynccontextmanager
async def fenced_host(rate: float = 1.0) -> AsyncIterator[FencedHost]:
    """Return a host with an agent, a watchdog and a guest that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    world = await World.build(cells={CELL: ("h1",)})
    clock = world.remains.clock = LoopClock(loop, world.remains.clock.now())
    world = World(world.plan, world.remains)
    await join(world)
    host = FencedHost(world, clock, rate)
    await host.guests.guests()
    host.start_watchdog()
    host.start_agent()
    await clock.sleep(12.0)
    await host.boot()
    yield host
    await world.close()


def random_rate(rng: Random, drift: float) -> float:
    return rng.uniform(1 - drift, 1 + drift)
