"""Orders over NATS: `host.HOST.SESSION.VERB`, the arguments as a JSON object, the result as JSON.

Invariants: an order reaches the newest session of a host's agent, or no agent. Anything but an answer of the agent
itself is Unavailable: the order may have been executed or not. The bus delivers an order once or not at all, and an
order that is older than its sender's timeout is not executed: its sender waits no longer.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import msgspec
import structlog
from nats.aio.msg import Msg

from whimbrel.adapters.bus.compressed import compress, decompress
from whimbrel.adapters.bus.message_ages import MessageAges
from whimbrel.adapters.bus.nats_answers import answer, answering, read_answer
from whimbrel.adapters.bus.nats_connection import BusConnection, NoResponders
from whimbrel.adapters.bus.nats_subjects import order_subject, token
from whimbrel.adapters.bus.order_decoding import decode_order
from whimbrel.adapters.bus.remote_agent import TIMEOUT_S, granted_s, remote_agent
from whimbrel.adapters.bus.verbs import VERBS, encode
from whimbrel.adapters.clock import since_boot
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.agent import Agent

log = structlog.get_logger(__name__)

RELEASE, SENT_AT, TIMEOUT = "Release", "Sent-At", "Timeout"
"""Headers of an order: the sender's release, its clock since its machine's start, and how many seconds it waits."""

SESSION_S = 5.0
"""How long a session that was read is used. A replaced agent may still receive orders for that time, until its next
heartbeat tells it that it was replaced."""

SessionOf = Callable[[HostName], Awaitable[int]]
"""Returns the newest session of a host's agent; 0: it had none yet."""


class NatsAgents:
    """Implements ports.hosts.agent.Agents for the hosts of one cell."""

    def __init__(
        self,
        bus: BusConnection,
        session_of: SessionOf,
        timeout_s: float = TIMEOUT_S,
        session_s: float = SESSION_S,
    ) -> None:
        """bus: of the cell's account, opened and closed by its owner."""
        self._bus = bus
        self._session_of = session_of
        self._timeout_s = timeout_s
        self._session_s = session_s
        self._sessions: dict[HostName, tuple[int, float]] = {}  # and when it was read
        self._release = version("whimbrel")

    def at(self, host: HostName) -> Agent:
        return remote_agent(self.ask, host)

    async def ask(self, host: HostName, name: str, question: msgspec.Struct) -> Any:
        """Send one order and return its result. Raises: the agent's error; Unavailable."""
        session = await self._session(host)
        try:
            message = await self._send(host, session, name, question)
        except NoResponders:
            newer = await self._read_session(host)
            if newer == session:
                raise Unavailable(f"the agent of host {host} is not connected to the bus") from None
            message = await self._send_again(host, newer, name, question)
        return read_answer(VERBS[name], message, f"host {host}", name)

    async def _send_again(self, host: HostName, session: int, name: str, question: msgspec.Struct) -> Msg:
        try:
            return await self._send(host, session, name, question)
        except NoResponders:
            raise Unavailable(f"the agent of host {host} is not connected to the bus yet") from None

    async def _send(self, host: HostName, session: int, name: str, question: msgspec.Struct) -> Msg:
        timeout_s = self._timeout_s + granted_s(question)
        body, headers = compress(encode(question))
        sent = {RELEASE: self._release, SENT_AT: f"{since_boot():.3f}", TIMEOUT: f"{timeout_s:.0f}"}
        return await self._bus.ask(order_subject(host, session, name), body, timeout_s, sent | headers)

    async def _session(self, host: HostName) -> int:
        session, read_at = self._sessions.get(host, (0, 0.0))
        if session and since_boot() - read_at <= self._session_s:
            return session
        return await self._read_session(host)

    async def _read_session(self, host: HostName) -> int:
        session = await self._session_of(host)
        if not session:
            raise Unavailable(f"host {host} has had no agent yet: start `whimbrel agent` there")
        self._sessions[host] = (session, since_boot())
        return session


@asynccontextmanager
async def serve_agent(bus: BusConnection, host: HostName, session: int, agent: Agent) -> AsyncIterator[None]:
    """Carry out the orders for a session of this host's agent while the context lasts, each as a task of its own.

    Those that have begun are finished before it ends: see `answering`.
    """
    ages = MessageAges()

    async def heard(message: Msg) -> None:
        headers = message.headers or {}
        if SENT_AT in headers and TIMEOUT in headers:
            sender = message.reply.rpartition(".")[0]
            age_s = ages.age_s(sender, float(headers[SENT_AT]))
            if age_s > float(headers[TIMEOUT]):
                log.warning("an order came too late and was dropped", subject=message.subject, age_s=age_s)
                return
        start(answer(bus, message, _carry_out(host, agent, message)))

    async with answering() as start, bus.listen(f"host.{token(host)}.{session}.*", heard):
        yield


async def _carry_out(host: HostName, agent: Agent, message: Msg) -> object:
    name = message.subject.rpartition(".")[2]
    arguments = decode_order(host, name, decompress(message.data, message.headers))
    result: object = await getattr(agent, name)(**arguments)
    return result
