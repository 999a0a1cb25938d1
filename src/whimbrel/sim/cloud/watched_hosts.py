"""Simulated hosts that fence themselves: each has a lease, a clock of its own rate, and the watchdog of the product.

The watchdog is a process beside the agent's. After it has killed the agent, a new one starts as soon as the cloud
answers it, since an agent obeys no orders before it is registered.
"""

from collections.abc import Callable, Collection, Mapping

from whimbrel.agent.lease_holder import LeaseHolder
from whimbrel.agent.lease_watchdog import Watchdog
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.leases import Fencing, ProcessId
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.loop import Process, SimulatedLoop
from whimbrel.sim.world.memory_leases import MemoryLeases, SimulatedBootClock

SELF_FENCE_S = 30.0
SESSION = 1
LOGGED = (
    "the lease of this host is over: its guests are stopped",
    "the hypervisor does not stop all guests: they are killed",  # the host has no power
    "the guests of this host were stopped",
)
"""What a watchdog logs as an error when it does its work."""
AGENT = ProcessId(pid=1, started=1)


class WatchedHosts:
    """The watchdogs of a cloud. rates: of the hosts' clocks; hosts that are not named do not fence themselves.

    end_agent: kills the agent of a host. fenced: called after the guests of a host were stopped.
    """

    def __init__(
        self,
        world: World,
        loop: SimulatedLoop,
        rates: Mapping[HostName, float],
        end_agent: Callable[[HostName], None],
        fenced: Callable[[HostName], None],
    ) -> None:
        self._world = world
        self._loop = loop
        self._end_agent = end_agent
        self._clocks = {host: SimulatedBootClock(world.cloud.clock, rate) for host, rate in rates.items()}
        self._leases = {host: _Leases(host, fenced) for host in rates}
        self._holders = {
            host: LeaseHolder(SELF_FENCE_S, self._leases[host], clock, AGENT) for host, clock in self._clocks.items()
        }

    def start(self) -> None:
        """Begin all leases, and start the watchdogs."""
        self.renew(self._clocks)
        for host in self._clocks:
            self._loop.spawn(Process(f"watchdog {host}"), self._watchdog(host).run())

    def renew(self, hosts: Collection[HostName]) -> None:
        """Renew the leases of hosts whose heartbeat was answered now."""
        for host in hosts:
            if host in self._clocks:
                self._holders[host].renew(SESSION, self._clocks[host].now())

    def reboot(self, host: HostName) -> None:
        """Note that a host has lost its power: its lease is over."""
        if host in self._clocks:
            self._clocks[host].reboot()

    def _watchdog(self, host: HostName) -> Watchdog:
        async def end_agent(_: ProcessId) -> None:
            self._end_agent(host)

        async def kill() -> list[str]:
            await self._world.hypervisors[host].lose_power()
            return []

        def hypervisor() -> SimulatedHypervisor:
            return self._world.hypervisors[host]

        clock = self._world.cloud.clock
        return Watchdog(self._leases[host], self._clocks[host], clock, hypervisor, end_agent, kill)


class _Leases(MemoryLeases):
    def __init__(self, host: HostName, fenced: Callable[[HostName], None]) -> None:
        super().__init__()
        self._host = host
        self._fenced = fenced

    def record(self, fencing: Fencing) -> None:
        super().record(fencing)
        self._fenced(self._host)
