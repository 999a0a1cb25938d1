"""The client of the HTTP bus.

Invariant: anything but a response of the agent itself is Unavailable: the order may have been executed or not.
"""

from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import quote

import httpx
import msgspec

from whimbrel.adapters.bus.verbs import ERRORS, TROUBLE, VERBS, Verb, decode_trouble, encode
from whimbrel.adapters.unanswered import unanswered
from whimbrel.domain.errors import Unavailable, WorldError
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.agent import Agent

TIMEOUT_S = 30.0
"""How long a response may take, in addition to the time that an order itself grants the host (`timeout_s`)."""


class HttpAgents:
    """Implements ports.hosts.agent.Agents for the hosts behind one endpoint."""

    def __init__(self, url: str, token: str, client: httpx.AsyncClient, timeout_s: float = TIMEOUT_S) -> None:
        """url: where `agents_app` is mounted. client: closed by its owner."""
        self._url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._client = client
        self._timeout_s = timeout_s

    def at(self, host: HostName) -> Agent:
        return cast(Agent, _Principal(self, host))

    async def ask(self, host: HostName, name: str, question: msgspec.Struct) -> Any:
        """Send one order and return its result. Raises: the agent's error; Unavailable."""
        timeout_s = self._timeout_s + getattr(question, "timeout_s", 0.0)
        url = f"{self._url}/agents/{quote(host, safe='')}/{name}"
        content = encode(question)
        with unanswered(f"no answer from host {host} to {name}"):
            response = await self._client.post(url, content=content, headers=self._headers, timeout=timeout_s)
        try:
            return _answer(VERBS[name], response)
        except msgspec.DecodeError as error:
            raise Unavailable(f"no readable answer from host {host} to {name}: {error}") from error


class _Principal:
    """The remote agent of one host."""

    def __init__(self, agents: HttpAgents, host: HostName) -> None:
        self._agents = agents
        self._host = host

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name not in VERBS:
            raise AttributeError(name)
        question = VERBS[name].question

        def call(*arguments: Any, **named: Any) -> Awaitable[Any]:
            return self._agents.ask(self._host, name, question(*arguments, **named))

        return call


def _answer(verb: Verb, response: httpx.Response) -> Any:
    if response.status_code == TROUBLE:
        trouble = decode_trouble(response.content)
        raise _error(trouble.error, trouble.reason)
    if response.status_code != httpx.codes.OK:
        raise Unavailable(f"{response.url.path} answers {response.status_code}: {response.text[:200]}")
    return verb.decode_answer(response.content)


def _error(name: str, reason: str) -> WorldError:
    """Recreate an error; one that only a newer agent knows becomes Unavailable."""
    return ERRORS.get(name, Unavailable)(reason)
