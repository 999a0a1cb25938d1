"""The presence of an agent in its cloud: it registers its host, serves orders under its session, and sends heartbeats.

Invariant: an agent that another one of its host has replaced serves nothing and ends by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from random import Random

import structlog

from whimbrel.agent.agent import HostAgent
from whimbrel.agent.lease_holder import LeaseHolder
from whimbrel.domain.errors import Superseded, Unavailable, WorldError
from whimbrel.domain.host_description import HostDescription
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.control_plane import (
    ANSWERED_WITHIN_S,
    BEAT_S,
    AgentHello,
    Beat,
    BeatAnswer,
    ControlPlane,
    Welcome,
)
from whimbrel.saga.backoff import pause_s

log = structlog.get_logger(__name__)

DESCRIBE_S = 60.0
"""How often the hypervisor is asked for what the host has: that changes rarely, and the answer may be long."""

PRUNE_S = 3600.0
"""How often old entries of the ledger are deleted."""

PRUNED_AFTER_S = 7 * 24 * 3600.0
"""Their age: no order of their runs can still be on its way."""


class Presence:
    """Keeps one agent in its cloud."""

    def __init__(
        self,
        agent: HostAgent,
        control: ControlPlane,
        describe: Callable[[], Awaitable[HostDescription]],
        metrics: Callable[[], Awaitable[dict[str, float]]],
        serve: Callable[[int], AbstractAsyncContextManager[None]],
        clock: Clock,
        *,
        release: str,
        verbs: dict[str, tuple[str, ...]],
        on_ready: Callable[[Welcome], None] = lambda welcome: None,
        lease: LeaseHolder | None = None,
    ) -> None:
        """describe, metrics: of the host, as of now; metrics raises a WorldError if the hypervisor does not answer.
        serve: serves the agent's orders under a session. lease: None: the host does not fence itself, and never has.
        """
        self._agent = agent
        self._control = control
        self._describe = describe
        self._metrics = metrics
        self._serve = serve
        self._clock = clock
        self._release = release
        self._verbs = verbs
        self._on_ready = on_ready
        self._lease = lease
        self._is_unheard = False
        self._described: tuple[HostDescription, str] | None = None  # the last description, and its digest
        self._described_at = 0.0

    async def run(self) -> None:
        """Serve until cancelled.

        Raises: Superseded: another agent of this host has replaced this one; Refused: the cloud does not admit it.
        """
        await self._agent.open()
        welcome = await self._registered()
        await self._agent.adopt(welcome.incarnation)
        async with self._serve(welcome.session):
            self._on_ready(welcome)
            try:
                await self._stay(welcome.session)
            except asyncio.CancelledError:  # a stop that is meant: the guests go on without an agent
                await self._withdraw()
                raise

    async def _stay(self, session: int) -> None:
        """Send heartbeats, and prune now and then. Raises: Superseded."""
        pruned_at = self._clock.now()
        while True:
            await self._clock.sleep(BEAT_S)
            await self.beat(session)
            if self._clock.now() - pruned_at >= PRUNE_S:
                pruned_at = self._clock.now()
                await self._agent.prune(pruned_at - PRUNED_AFTER_S)

    async def _registered(self) -> Welcome:
        """Register until there is an answer. Raises: Refused."""
        tries, rng = 0, Random()
        while True:
            description, _ = await self._look()
            hello = AgentHello(release=self._release, verbs=self._verbs, description=description)
            sent_at = self._lease.now() if self._lease else 0.0
            try:
                welcome = await self._control.register(self._agent.host, hello)
                if self._lease:
                    self._lease.registered(welcome.session, sent_at, hello.description)
                return welcome
            except Unavailable as trouble:
                if not tries:
                    log.warning("the cloud does not answer; the agent tries again", reason=trouble.reason)
                tries += 1
                await self._clock.sleep(pause_s(tries, rng))

    async def beat(self, session: int) -> None:
        """Send one heartbeat; the cloud may not answer. Raises: Superseded: the session is not the newest."""
        metrics, (description, digest) = await self._seen()
        if self._lease and (promised := self._lease.promised(description)) is not description:
            description, digest = promised, promised.digest()
        beat = Beat(session=session, digest=digest, answers=description.answers, metrics=metrics)
        sent_at = self._lease.now() if self._lease else 0.0
        try:
            answer = await self._answer(beat)
            if self._lease and answer.session == session and beat.answers:
                self._lease.renew(session, sent_at)
            if answer.session == session and answer.describe:
                await self._control.describe(self._agent.host, session, description)
        except Superseded:
            raise
        except WorldError as trouble:
            if not self._is_unheard:  # log once for each outage
                log.warning("a heartbeat was not answered", reason=trouble.reason)
            self._is_unheard = True
            return
        self._is_unheard = False
        if answer.session > session:
            raise Superseded(
                f"another agent of host {self._agent.host} has started (session {answer.session}, this one has"
                f" {session}): this one ends. If that is not intended, stop the other one and start this one again"
            )

    async def _seen(self) -> tuple[dict[str, float], tuple[HostDescription, str]]:
        """Return the metrics and the description; that is old for at most DESCRIBE_S while the hypervisor answers."""
        is_recent = 0 <= self._clock.now() - self._described_at < DESCRIBE_S
        try:
            metrics = await self._metrics()
        except WorldError:
            return {}, await self._look()
        if self._described and self._described[0].answers and is_recent:
            return metrics, self._described
        return metrics, await self._look()

    async def _look(self) -> tuple[HostDescription, str]:
        self._described_at = self._clock.now()
        description = await self._describe()
        self._described = description, description.digest()
        return self._described

    async def _answer(self, beat: Beat) -> BeatAnswer:
        """Raises: Unavailable: no answer in time."""
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                return await self._control.beat(self._agent.host, beat)
        except TimeoutError:
            raise Unavailable(f"no answer within {ANSWERED_WITHIN_S:g} s") from None

    async def _withdraw(self) -> None:
        """Take the promise back and end the lease. Without an answer it stays in force: the cloud counts on it.

        A new session does it, and not a description: one with the promise may still be on its way, and would be
        registered after this one.
        """
        if self._lease is None:
            return
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                hello = AgentHello(release=self._release, verbs=self._verbs, description=(await self._look())[0])
                await self._control.register(self._agent.host, hello)
        except (WorldError, TimeoutError) as trouble:
            log.warning("the cloud does not know that this agent ends: its guests will stop", reason=str(trouble))
        else:
            self._lease.end()
