"""The network of a simulated cloud: every call of a process's ports takes time and meets the faults of the fault state.

Invariants: the host's own process carries out an order, whatever happens to the sender. A lost or late message costs
the caller its timeout, as in production, unless the connection itself was lost. A late, doubled or overtaken message
arrives even if its sender has died.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

from whimbrel.adapters.bus.verbs import VERBS
from whimbrel.agent.agent import HostAgent
from whimbrel.domain.errors import Conflict, Refused, Unavailable
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.ports.hosts.agent import Agent
from whimbrel.ports.services.images import Image, Images
from whimbrel.sim.faults.call_subjects import Subjects
from whimbrel.sim.faults.chaos import Chaos, changes
from whimbrel.sim.faults.fault_state import FaultState, line_of, timeout_s
from whimbrel.sim.faults.planned_events import AT_ONCE, BUS, Mishap
from whimbrel.sim.record.trace import Trace
from whimbrel.sim.world.loop import Process, SimulatedLoop

Check = Callable[[str, ServerId | None], None]
"""Called after an event with what happened and the server that it changed (None: unknown)."""

LATEST_S = 50.0
"""A late message has arrived by then."""
OVERTAKEN_S = 15.0
"""An overtaken message has arrived by then, and its sender still waits."""


class NetworkFaults(Chaos):
    """Wraps the ports of one process. check: called after each event that can change the world."""

    def __init__(
        self,
        loop: SimulatedLoop,
        fault_state: FaultState,
        trace: Trace,
        process: Process,
        check: Check,
        subjects: Subjects,
    ) -> None:
        super().__init__({})
        self._subjects = subjects
        self._loop = loop
        self._fault_state = fault_state
        self._trace = trace
        self._process = process
        self._check = check
        self._outside = Process("wires")

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        line, who = line_of(name), self._process.name
        mishap, outage = self._fault_state.meets(line, name), self._fault_state.outage(line)
        await asyncio.sleep(self._fault_state.delay_s(line, who))
        if outage:
            await self._stay_out(outage, name, line)
        if mishap:
            self._trace.tell(self._loop.time(), who, f"{name} meets: {mishap.what}")
            self._trace.tally.went_wrong(mishap.what, line)
            await self._meet(mishap, name, line, call)
        try:
            answer = await (self._overtaken(name, call) if mishap and mishap.what == "overtaken" else call())
        except Exception as error:
            self._trace.note(self._loop.time(), who, f"{name}: {type(error).__name__}")
            self._look(name, call)  # the call may have taken effect
            raise
        self._trace.note(self._loop.time(), who, name)
        self._subjects.learn(answer)
        self._look(name, call, answer)
        if mishap and mishap.what == "lost answer":
            await self._wait_in_vain(name, line)
        if changes(name):
            await asyncio.sleep(self._fault_state.delay_s(line, who))
        return answer

    def _look(self, name: str, call: Callable[[], Awaitable[Any]], answer: Any = None) -> None:
        """Check the invariants after a call. For orders the bus does it when the agent carries them out."""
        took_nothing = answer == []
        if changes(name) and line_of(name) != BUS and not took_nothing:
            self._check(name, self._subjects.of(call) or self._subjects.among(answer if _is_one(answer) else ()))

    async def _stay_out(self, outage: Mishap, name: str, line: str) -> None:
        self._trace.tally.went_wrong(f"outage, {outage.answer}", line)
        if outage.answer == "409" and changes(name):
            raise Conflict(f"{line} says that somebody was faster")
        if outage.answer == "nothing":
            await asyncio.sleep(timeout_s(line))
        raise Unavailable(f"{line} is out")

    async def _meet(self, mishap: Mishap, name: str, line: str, call: Callable[[], Awaitable[Any]]) -> None:
        if mishap.what == "refused":
            raise Refused(f"{name} says no")
        if mishap.what == "conflict":
            raise Conflict(f"{name} says that somebody was faster")
        if mishap.what == "held up":
            self._fault_state.held_up[host_of(name)] = self._fault_state.random_s(LATEST_S)
        if mishap.what == "doubled":
            self._again(name, call)
        if mishap.what == "late":
            self._again(name, call)
            await self._wait_in_vain(name, line)
        if mishap.answer == AT_ONCE:
            if mishap.what == "lost answer":
                self._loop.spawn(self._outside, self._deliver(name, call, 0.0))
            raise Unavailable(f"the connection was lost before {name} was answered")
        if mishap.what == "lost request":
            await self._wait_in_vain(name, line)

    async def _wait_in_vain(self, name: str, line: str) -> None:
        await asyncio.sleep(timeout_s(line))
        raise Unavailable(f"no answer from {name}")

    def _again(self, name: str, call: Callable[[], Awaitable[Any]]) -> None:
        """Deliver the same message again; its answer is dropped."""
        self._loop.spawn(self._outside, self._deliver(name, call, self._fault_state.random_s(LATEST_S)))

    async def _overtaken(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Deliver a message later than messages that were sent after it."""
        delivery = self._deliver(name, call, self._fault_state.random_s(OVERTAKEN_S))
        answer = await asyncio.shield(self._loop.spawn(self._outside, delivery))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def _deliver(self, name: str, call: Callable[[], Awaitable[Any]], delay_s: float) -> Any:
        """Deliver a message on its own task and return the answer or the error."""
        await asyncio.sleep(delay_s)
        message = f"{name} of {self._process.name}"
        self._trace.tell(self._loop.time(), "wires", f"{message} arrives now")  # before an invariant fails
        answers = await asyncio.gather(call(), return_exceptions=True)
        answer: Any = answers[0]
        if isinstance(answer, BaseException):
            self._trace.tell(self._loop.time(), "wires", f"{message} is told: {type(answer).__name__}")
        self._look(name, call)
        return answer


def host_of(touch: str) -> HostName:
    """Return the host of a touch of an agent: `agent h1.stop`."""
    return HostName(touch.removeprefix("agent ").rsplit(".", 1)[0])


class ImageFaults:
    """Wraps ports.services.images.Images for agents: a file travels as a whole, so it can arrive twice."""

    def __init__(self, faults: NetworkFaults, images: Images) -> None:
        self._faults = faults
        self._images = images

    async def show(self, image_id: str) -> Image:
        shown: Image = await self._faults.touch("images.show", lambda: self._images.show(image_id))
        return shown

    async def read(self, image_id: str) -> AsyncIterator[bytes]:
        async def fetch() -> list[bytes]:
            return [chunk async for chunk in self._images.read(image_id)]

        for chunk in await self._faults.touch("images.read", fetch):
            yield chunk

    async def write(self, image_id: str, chunks: AsyncIterator[bytes]) -> None:
        file = [chunk async for chunk in chunks]
        await self._faults.touch("images.write", lambda: self._images.write(image_id, _each(file)))


def _is_one(answer: Any) -> bool:
    """Check whether it is a list of one element, as most results of the journal are."""
    return isinstance(answer, list) and len(answer) == 1


async def _each(file: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in file:
        yield chunk


class Bus:
    """Implements ports.hosts.agent.Agents: carries orders to the processes of hosts."""

    def __init__(self, loop: SimulatedLoop, fault_state: FaultState, check: Check, subjects: Subjects) -> None:
        self._subjects = subjects
        self.agents: dict[HostName, tuple[Process, HostAgent]] = {}
        self._loop = loop
        self._fault_state = fault_state
        self._check = check
        self._outside = Process("bus")

    def at(self, host: HostName) -> Agent:
        return cast(Agent, _Stub(self, host))

    async def ask(self, host: HostName, verb: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        answer = self._loop.create_future()
        self._outside.context.copy().run(self._deliver, host, verb, arguments, named, answer)
        granted = getattr(VERBS[verb].question(*arguments, **named), "timeout_s", 0.0)
        try:
            async with asyncio.timeout(timeout_s(BUS) + granted):
                return await answer
        except TimeoutError:
            raise Unavailable(f"no answer from host {host} to {verb}") from None

    def _deliver(
        self, host: HostName, verb: str, arguments: tuple[Any, ...], named: dict[str, Any], answer: asyncio.Future[Any]
    ) -> None:
        process, agent = self.agents[host]
        if process.is_dead or self._fault_state.partitioned.get(host):
            return

        def reply(work: asyncio.Task[Any]) -> None:
            if changes(f"agent.{verb}"):
                self._check(f"agent {host}.{verb}", self._subjects.among((*arguments, *named.values())))
            if answer.done() or self._fault_state.partitioned.get(host) or work.cancelled():
                return
            error = work.exception()
            if error:
                answer.set_exception(error)
            else:
                answer.set_result(work.result())

        self._loop.spawn(process, getattr(agent, verb)(*arguments, **named)).add_done_callback(reply)


class _Stub:
    """Proxy for the agent of a host."""

    def __init__(self, bus: Bus, host: HostName) -> None:
        self._bus = bus
        self._host = host

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._bus.ask(self._host, verb, arguments, named)

        return call
