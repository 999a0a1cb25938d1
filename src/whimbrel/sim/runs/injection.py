"""Inject faults into a simulated cloud: processes die, hosts lose power, services stop; all of them recover."""

import asyncio

from whimbrel.domain.ids import HostName
from whimbrel.sim.cloud.processes import Staff
from whimbrel.sim.faults.planned_events import MESSAGES, RESTORE, Mishap
from whimbrel.sim.record.trace import Trace
from whimbrel.sim.runs.database_restores import Restores


class Faults:
    def __init__(self, staff: Staff, trace: Trace, restores: Restores) -> None:
        self._staff = staff
        self._restores = restores
        self._trace = trace

    async def happen(self, mishap: Mishap) -> None:
        """Start the fault, and end it after its time."""
        if mishap.what in MESSAGES:
            self._staff.fault_state.will_meet(mishap)
            return
        self._tell(str(mishap))
        self._trace.tally.went_wrong(mishap.what, mishap.where if mishap.what == "outage" else "")
        match mishap.what:
            case "kill":
                await self._kill(mishap)
            case "freeze":
                await self._freeze(self._staff.process(mishap.where).name, mishap)
            case "slow":
                await self._slow(mishap)
            case "kill agent":
                await self._kill_agent(HostName(mishap.where), mishap.for_s)
            case "freeze agent":
                await self._freeze_agent(HostName(mishap.where), mishap.for_s)
            case "power loss":
                await self._staff.world.hypervisors[HostName(mishap.where)].lose_power()
                self._staff.check(f"power loss of {mishap.where}", None)
                await self._kill_agent(HostName(mishap.where), mishap.for_s)
            case "cut off":
                await self._partition(HostName(mishap.where), mishap.for_s)
            case "outage":
                await self._outage(mishap)
            case what if what == RESTORE:
                await self._restores.happen(mishap)
            case _:
                raise AssertionError(f"nobody knows how {mishap.what} goes")
        self._tell(f"over: {mishap.what}: {mishap.where}")

    async def _kill(self, mishap: Mishap) -> None:
        process = self._staff.process(mishap.where)
        process.is_dead = True
        await asyncio.sleep(mishap.for_s)
        if self._staff.process(mishap.where) is process:
            self._staff.start(mishap.where)

    async def _freeze(self, name: str, mishap: Mishap) -> None:
        process = self._staff.process(name)
        process.is_frozen = True
        await asyncio.sleep(mishap.for_s)
        self._staff.loop.thaw(process)

    async def _slow(self, mishap: Mishap) -> None:
        slow = self._staff.fault_state.slow
        slow[mishap.where] = slow.get(mishap.where, 0) + 1
        await asyncio.sleep(mishap.for_s)
        slow[mishap.where] -= 1

    async def _kill_agent(self, host: HostName, for_s: float) -> None:
        process = self._staff.agent(host)
        process.is_dead = True
        await asyncio.sleep(for_s)
        if self._staff.agent(host) is process:
            await self._staff.start_agent(host)

    async def _freeze_agent(self, host: HostName, for_s: float) -> None:
        process = self._staff.agent(host)
        process.is_frozen = True
        await asyncio.sleep(for_s)
        self._staff.loop.thaw(process)

    async def _partition(self, host: HostName, for_s: float) -> None:
        cut = self._staff.fault_state.partitioned
        cut[host] = cut.get(host, 0) + 1
        await asyncio.sleep(for_s)
        cut[host] -= 1

    async def _outage(self, mishap: Mishap) -> None:
        unreachable = self._staff.fault_state.out.setdefault(mishap.where, [])
        unreachable.append(mishap)
        await asyncio.sleep(mishap.for_s)
        unreachable.remove(mishap)

    def _tell(self, what: str) -> None:
        self._trace.tell(self._staff.loop.time(), "fault", what)
