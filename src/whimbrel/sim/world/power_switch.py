"""Simulated fence devices: they cut the power of simulated hosts, and may lie, fail, refuse, or be slow."""

from collections.abc import Iterable
from typing import Literal

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.ids import HostName
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.fencing import FenceDevice, Power
from whimbrel.sim.world.hosts import SimulatedWorld

Method = Literal["power_off", "power"]


class PowerSwitch:
    """Implements ports.hosts.fencing.FenceDevice.

    lies: it leaves the machine on, and says that it is off. is_stuck: it leaves the machine on, and says so.
    unanswered: methods that do nothing and do not answer. unheard: methods that do their work and whose answer is lost.
    refused: methods that say no. takes_s: the duration of each method. cuts: how often it cut the power.
    """

    kind = "simulated"

    def __init__(self, host: HostName, world: SimulatedWorld, clock: Clock) -> None:
        self.host = host
        self.address = f"simulated:{host}"
        self.lies = False
        self.is_stuck = False
        self.unanswered: set[Method] = set()
        self.unheard: set[Method] = set()
        self.refused: set[Method] = set()
        self.takes_s = 0.0
        self.cuts = 0
        self._world = world
        self._clock = clock

    async def power_off(self) -> None:
        await self._begin("power_off")
        if not (self.lies or self.is_stuck):
            self.cuts += 1
            await self._world.power_off(self.host)
        self._end("power_off")

    async def power(self) -> Power:
        await self._begin("power")
        self._end("power")
        return "off" if self.lies or self.host in self._world.off else "on"

    async def _begin(self, method: Method) -> None:
        if self.takes_s > 0:
            await self._clock.sleep(self.takes_s)
        if method in self.unanswered:
            raise Unavailable(f"the fence device of host {self.host} does not answer")
        if method in self.refused:
            raise Refused(f"the fence device of host {self.host} was told to refuse {method}")

    def _end(self, method: Method) -> None:
        if method in self.unheard:
            raise Unavailable(f"the answer of the fence device of host {self.host} was lost")


class PowerSwitches:
    """Implements ports.hosts.fencing.Fences for simulated hosts."""

    def __init__(self, hosts: Iterable[HostName], world: SimulatedWorld, clock: Clock) -> None:
        self.by_host = {host: PowerSwitch(host, world, clock) for host in hosts}

    def of(self, host: HostName) -> FenceDevice | None:
        return self.by_host.get(host)
