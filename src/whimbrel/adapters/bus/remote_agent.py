"""An agent elsewhere, as an object: each verb becomes a question, and the answer to it the result."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from whimbrel.adapters.bus.verbs import VERBS
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.agent import Agent

TIMEOUT_S = 30.0
"""How long an answer may take, in addition to the time that an order itself grants the host (`timeout_s`)."""

Ask = Callable[[HostName, str, msgspec.Struct], Awaitable[Any]]
"""Sends one order, a verb of VERBS and its question, and returns the result. Raises: the agent's error; Unavailable."""


def remote_agent(ask: Ask, host: HostName) -> Agent:
    return cast(Agent, _RemoteAgent(ask, host))


def granted_s(question: msgspec.Struct) -> float:
    """Return how long an order grants the host."""
    return float(getattr(question, "timeout_s", 0.0))


class _RemoteAgent:
    def __init__(self, ask: Ask, host: HostName) -> None:
        self._ask = ask
        self._host = host

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name not in VERBS:
            raise AttributeError(name)
        question = VERBS[name].question

        def call(*arguments: Any, **named: Any) -> Awaitable[Any]:
            return self._ask(self._host, name, question(*arguments, **named))

        return call
