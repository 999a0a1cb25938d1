"""The presence of an agent in its cloud: it registers its host, serves orders under its session, and sends heartbeats.

Invariant: an agent that another one of its host has replaced serves nothing and ends by itself.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from random import Random

import structlog

from whimbrel.agent.agent import HostAgent
from whimbrel.domain.errors import Superseded, Unavailable, WorldError
from whimbrel.domain.host_description import HostDescription
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.control_plane import BEAT_S, AgentHello, Beat, ControlPlane, Welcome
from whimbrel.saga.backoff import pause_s

log = structlog.get_logger(__name__)

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
    ) -> None:
        """describe, metrics: of the host, as of now. serve: serves the agent's orders under a session."""
        self._agent = agent
        self._control = control
        self._describe = describe
        self._metrics = metrics
        self._serve = serve
        self._clock = clock
        self._release = release
        self._verbs = verbs
        self._on_ready = on_ready
        self._is_unheard = False

    async def run(self) -> None:
        """Serve until cancelled.

        Raises: Superseded: another agent of this host has replaced this one; Refused: the cloud does not admit it.
        """
        await self._agent.open()
        welcome = await self._registered()
        await self._agent.adopt(welcome.incarnation)
        async with self._serve(welcome.session):
            self._on_ready(welcome)
            pruned_at = self._clock.now()
            while True:
                await self._clock.sleep(BEAT_S)
                await self.beat(welcome.session)
                if self._clock.now() - pruned_at >= PRUNE_S:
                    pruned_at = self._clock.now()
                    await self._agent.prune(pruned_at - PRUNED_AFTER_S)

    async def _registered(self) -> Welcome:
        """Register until there is an answer. Raises: Refused."""
        tries, rng = 0, Random()
        while True:
            hello = AgentHello(release=self._release, verbs=self._verbs, description=await self._describe())
            try:
                return await self._control.register(self._agent.host, hello)
            except Unavailable as trouble:
                if not tries:
                    log.warning("the cloud does not answer; the agent tries again", reason=trouble.reason)
                tries += 1
                await self._clock.sleep(pause_s(tries, rng))

    async def beat(self, session: int) -> None:
        """Send one heartbeat; the cloud may not answer. Raises: Superseded: the session is not the newest."""
        description = await self._describe()
        beat = Beat(
            session=session,
            digest=description.digest(),
            answers=description.answers,
            metrics=await self._metrics(),
        )
        try:
            answer = await self._control.beat(self._agent.host, beat)
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
