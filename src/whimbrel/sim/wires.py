"""The wires of a simulated cloud: every call of a process's ports takes time, and meets what the weather has for it.

Laws: an order to a host is carried out by the host's own process, whatever becomes of the one that sent it. What is
out of sight (lost, late) costs the caller his patience, as it would outside.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from whimbrel.adapters.bus.verbs import VERBS
from whimbrel.agent.host import HostAgent
from whimbrel.domain.errors import Conflict, Refused, Unavailable
from whimbrel.domain.ids import HostName
from whimbrel.ports.agent import Agent
from whimbrel.sim.chaos import Chaos, changes
from whimbrel.sim.decisions import BUS, Mishap
from whimbrel.sim.loop import Process, SimulatedLoop
from whimbrel.sim.trace import Trace
from whimbrel.sim.weather import Weather, line_of, patience_s

Check = Callable[[str], None]

LATEST_S = 50.0
"""By then a message that is late has arrived."""


class Wires(Chaos):
    """Wraps the ports of one process. check: called after each event that can change the world."""

    def __init__(self, loop: SimulatedLoop, weather: Weather, trace: Trace, process: Process, check: Check) -> None:
        super().__init__({})
        self._loop = loop
        self._weather = weather
        self._trace = trace
        self._process = process
        self._check = check
        self._outside = Process("wires")

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        line, who = line_of(name), self._process.name
        mishap, outage = self._weather.meets(line, name), self._weather.outage(line)
        await asyncio.sleep(self._weather.delay_s(line, who))
        if outage:
            await self._stay_out(outage, name, line)
        if mishap:
            self._trace.tell(self._loop.time(), who, f"{name} meets: {mishap.what}")
            await self._before(mishap, name, line, call)
        try:
            answer = await call()
        except Exception as error:
            self._trace.note(self._loop.time(), who, f"{name}: {type(error).__name__}")
            raise
        self._trace.note(self._loop.time(), who, name)
        if changes(name):
            self._check(name)
        if mishap and mishap.what == "lost answer":
            await self._wait_in_vain(name, line)
        if changes(name):
            await asyncio.sleep(self._weather.delay_s(line, who))
        return answer

    async def _stay_out(self, outage: Mishap, name: str, line: str) -> None:
        if outage.answer == "409" and changes(name):
            raise Conflict(f"{line} says that somebody was faster")
        if outage.answer == "nothing":
            await asyncio.sleep(patience_s(line))
        raise Unavailable(f"{line} is out")

    async def _before(self, mishap: Mishap, name: str, line: str, call: Callable[[], Awaitable[Any]]) -> None:  # type: ignore[override]
        if mishap.what == "refused":
            raise Refused(f"{name} says no")
        if mishap.what == "conflict":
            raise Conflict(f"{name} says that somebody was faster")
        if mishap.what == "doubled":
            self._again(call, self._weather.some(LATEST_S))
        if mishap.what == "late":
            self._again(call, self._weather.some(LATEST_S))
            await self._wait_in_vain(name, line)
        if mishap.what == "lost request":
            await self._wait_in_vain(name, line)

    async def _wait_in_vain(self, name: str, line: str) -> None:
        await asyncio.sleep(patience_s(line))
        raise Unavailable(f"no answer from {name}")

    def _again(self, call: Callable[[], Awaitable[Any]], delay_s: float) -> None:
        """Have the same message arrive once more; nobody waits for what is said to it."""

        async def deliver() -> None:
            await asyncio.sleep(delay_s)
            await asyncio.gather(call(), return_exceptions=True)

        self._loop.spawn(self._outside, deliver())


class Bus:
    """Fulfils ports.agent.Agents: carries orders to the processes of hosts."""

    def __init__(self, loop: SimulatedLoop, weather: Weather, check: Check) -> None:
        self.agents: dict[HostName, tuple[Process, HostAgent]] = {}
        self._loop = loop
        self._weather = weather
        self._check = check
        self._outside = Process("bus")

    def at(self, host: HostName) -> Agent:
        return cast(Agent, _Stub(self, host))

    async def ask(self, host: HostName, verb: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        answer = self._loop.create_future()
        self._outside.context.copy().run(self._deliver, host, verb, arguments, named, answer)
        granted = getattr(VERBS[verb].question(*arguments, **named), "timeout_s", 0.0)
        try:
            async with asyncio.timeout(patience_s(BUS) + granted):
                return await answer
        except TimeoutError:
            raise Unavailable(f"no answer from host {host} to {verb}") from None

    def _deliver(
        self, host: HostName, verb: str, arguments: tuple[Any, ...], named: dict[str, Any], answer: asyncio.Future[Any]
    ) -> None:
        process, agent = self.agents[host]
        if process.is_dead or self._weather.cut_off.get(host):
            return

        def reply(work: asyncio.Task[Any]) -> None:
            if changes(f"agent.{verb}"):
                self._check(f"agent {host}.{verb}")
            if answer.done() or self._weather.cut_off.get(host) or work.cancelled():
                return
            error = work.exception()
            if error:
                answer.set_exception(error)
            else:
                answer.set_result(work.result())

        self._loop.spawn(process, getattr(agent, verb)(*arguments, **named)).add_done_callback(reply)


class _Stub:
    """Stands for the agent of a host."""

    def __init__(self, bus: Bus, host: HostName) -> None:
        self._bus = bus
        self._host = host

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._bus.ask(self._host, verb, arguments, named)

        return call
