"""Inject faults into a simulated cloud: processes die, hosts lose power, services stop; all of them recover."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from whimbrel.domain.ids import HostName
from whimbrel.sim.cloud.operator import ASKS_EVERY_S, Operator
from whimbrel.sim.cloud.processes import Staff
from whimbrel.sim.faults.planned_events import MAINTENANCE, MESSAGES, RESTORE, Mishap
from whimbrel.sim.record.trace import Trace
from whimbrel.sim.runs.database_restores import Restores
from whimbrel.sim.world.loop import Process
from whimbrel.sim.world.power_switch import PowerSwitch

SLOW_S = 20.0
"""The duration of each request to a slow fence device."""

Where = TypeVar("Where", bound=str)


class Faults:
    def __init__(self, staff: Staff, trace: Trace, restores: Restores) -> None:
        self._staff = staff
        self._restores = restores
        self._trace = trace
        self.operator = Operator(staff, trace)
        self._away: dict[HostName, int] = {}  # dead and lost hosts -> number of reasons

    async def happen(self, mishap: Mishap) -> None:
        """Start the fault, and end it after its time."""
        if mishap.what in MESSAGES:
            self._staff.fault_state.will_meet(mishap)
            return
        if mishap.what == MAINTENANCE:
            await self.operator.maintain(mishap.where, mishap.answer, mishap.for_s)
            return
        self._tell(str(mishap))
        self._trace.tally.went_wrong(mishap.what, mishap.where if mishap.what == "outage" else "")
        host = HostName(mishap.where)  # of those that concern a host
        match mishap.what:
            case "kill":
                await self._kill(mishap)
            case "freeze":
                await self._freeze(self._staff.process(mishap.where), mishap.for_s)
            case "slow":
                with _counted(self._staff.fault_state.slow, mishap.where):
                    await asyncio.sleep(mishap.for_s)
            case "kill agent":
                await self._kill_agent(host, mishap.for_s)
            case "freeze agent":
                await self._freeze(self._staff.agent(host), mishap.for_s)
            case "power loss":
                await self._staff.world.hypervisors[host].lose_power()
                self._staff.watched.reboot(host)
                self._staff.check(f"power loss of {host}", None)
                await self._kill_agent(host, mishap.for_s)
            case "cut off":
                with _counted(self._staff.fault_state.partitioned, host):
                    await asyncio.sleep(mishap.for_s)
            case "dead host":
                await self._dead_host(host, mishap.for_s)
            case "lost host":
                with _counted(self._staff.fault_state.partitioned, host):
                    await self._evacuate(host, mishap.for_s, is_dead=False)
                await self._return(host)
            case "fence fails":
                await self._fence_fails(mishap)
            case "outage":
                await self._outage(mishap)
            case what if what == RESTORE:
                await self._restores.happen(mishap)
            case _:
                raise AssertionError(f"there is no fault {mishap.what}")
        self._tell(f"over: {mishap.what}: {mishap.where}")

    async def _kill(self, mishap: Mishap) -> None:
        process = self._staff.process(mishap.where)
        process.is_dead = True
        await asyncio.sleep(mishap.for_s)
        if self._staff.process(mishap.where) is process:
            self._staff.start(mishap.where)

    async def _freeze(self, process: Process, for_s: float) -> None:
        process.is_frozen = True
        await asyncio.sleep(for_s)
        self._staff.loop.thaw(process)

    async def _kill_agent(self, host: HostName, for_s: float) -> None:
        process = self._staff.agent(host)
        process.is_dead = True
        await asyncio.sleep(for_s)
        if self._staff.agent(host) is process and host not in self._staff.world.simulated.off:
            await self._staff.start_agent(host)

    async def _dead_host(self, host: HostName, for_s: float) -> None:
        await self._staff.world.simulated.power_off(host)
        self._staff.check(f"the end of {host}", None)
        await self._evacuate(host, for_s, is_dead=True)
        await self.operator.readmit(host)  # before it has power again, when it is not dead any more
        await self._return(host)

    async def _evacuate(self, host: HostName, for_s: float, *, is_dead: bool) -> None:
        self._away[host] = self._away.get(host, 0) + 1
        work = self._staff.loop.spawn(Process("operator"), self.operator.evacuate(host, is_dead=is_dead))
        await asyncio.sleep(for_s)
        work.cancel()

    async def _return(self, host: HostName) -> None:
        self._away[host] -= 1
        await self._power_on(host)

    async def keep_hosts_on(self) -> None:
        """Start hosts again that were fenced after their return, and agents that a watchdog has killed."""
        while True:
            await asyncio.sleep(ASKS_EVERY_S)
            for host in sorted(self._staff.world.simulated.off):
                await self._power_on(host)
            for host in sorted(self._staff.ended_agents - self._staff.world.simulated.off):
                self._staff.ended_agents.discard(host)
                self._staff.loop.spawn(Process("supervisor"), self._staff.start_agent(host))

    async def _power_on(self, host: HostName) -> None:
        """Start a host that has no power, if nothing keeps it away; guests stay off."""
        if host in self._staff.world.simulated.off and not self._away.get(host):
            self._staff.world.simulated.power_on(host)
            await self._staff.start_agent(host)

    async def _fence_fails(self, mishap: Mishap) -> None:
        device = self._staff.world.fences.by_host.get(HostName(mishap.where))
        if device is None:
            return
        wrong = PowerSwitch(device.host, self._staff.world.simulated, self._staff.world.cloud.clock)
        wrong.is_stuck, wrong.takes_s = mishap.answer == "stuck", SLOW_S if mishap.answer == "slow" else 0.0
        for name, methods in ("unanswered", wrong.unanswered), ("unheard", wrong.unheard), ("refused", wrong.refused):
            methods |= {"power", "power_off"} if mishap.answer == name else set()
        self._staff.world.fences.by_host[device.host] = wrong
        await asyncio.sleep(mishap.for_s)
        self._staff.world.fences.by_host[device.host] = device

    async def _outage(self, mishap: Mishap) -> None:
        outages = self._staff.fault_state.out.setdefault(mishap.where, [])
        outages.append(mishap)
        await asyncio.sleep(mishap.for_s)
        outages.remove(mishap)

    def _tell(self, what: str) -> None:
        self._trace.tell(self._staff.loop.time(), "fault", what)


@contextmanager
def _counted(faults: dict[Where, int], where: Where) -> Iterator[None]:
    """Count one more fault at this process or host while it lasts."""
    faults[where] = faults.get(where, 0) + 1
    yield
    faults[where] -= 1
