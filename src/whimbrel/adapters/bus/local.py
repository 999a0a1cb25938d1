"""The bus inside one process: agents are objects."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from whimbrel.adapters.bus.remote_agent import granted_s
from whimbrel.adapters.bus.verbs import VERBS
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import HostName
from whimbrel.ports.abandoned_tasks import retrieve
from whimbrel.ports.hosts.agent import Agent


class LocalAgents:
    """Implements ports.hosts.agent.Agents. The mapping may change: it is read on each call."""

    def __init__(self, agents: Mapping[HostName, Agent], timeout_s: float | None = None) -> None:
        """timeout_s: how long an answer may take, beyond what an order itself grants the host; None: unlimited."""
        self._agents = agents
        self._timeout_s = timeout_s

    def at(self, host: HostName) -> Agent:
        agent = self._agents.get(host)
        if agent is None:
            return cast(Agent, _MissingAgent(host))
        return agent if self._timeout_s is None else cast(Agent, _TimeLimitedAgent(host, agent, self._timeout_s))


class _TimeLimitedAgent:
    """Wraps an agent with a time limit; an order that exceeds it continues in the background."""

    def __init__(self, host: HostName, agent: Agent, timeout_s: float) -> None:
        self._host = host
        self._agent = agent
        self._timeout_s = timeout_s

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._agent, verb)

        async def call(*arguments: Any, **named: Any) -> Any:
            question = VERBS[verb].question(*arguments, **named)
            work = asyncio.ensure_future(method(*arguments, **named))
            work.add_done_callback(retrieve)  # nothing waits for it if the caller is cancelled
            done, _ = await asyncio.wait((work,), timeout=self._timeout_s + granted_s(question))
            if not done:
                raise Unavailable(f"no answer from host {self._host} to {verb}")
            return work.result()

        return call


class _MissingAgent:
    """Stands in for a missing agent: never answers."""

    def __init__(self, host: HostName) -> None:
        self._host = host

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def unanswered(*_arguments: Any, **_named: Any) -> Any:
            raise Unavailable(f"no agent of host {self._host} is here")

        return unanswered
