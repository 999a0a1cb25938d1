"""The callers' end of the HTTP bus.

Law: anything but an answer of the agent itself is Unavailable: the order may have been carried out, or not.
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
"""How long an answer may take, on top of the time that an order itself grants the host (`timeout_s`)."""


class HttpAgents:
    """Fulfils ports.agent.Agents for the hosts behind one door."""

    def __init__(self, url: str, token: str, client: httpx.AsyncClient, timeout_s: float = TIMEOUT_S) -> None:
        """url: where `agents_app` is mounted. client: stays its owner's, who closes it."""
        self._url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._client = client
        self._timeout_s = timeout_s

    def at(self, host: HostName) -> Agent:
        return cast(Agent, _Principal(self, host))

    async def ask(self, host: HostName, name: str, question: msgspec.Struct) -> Any:
        """Send one order and give its answer. Raises: what the agent raised; Unavailable."""
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
    """The agent of one host, far away."""

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
    """Make the error again; one that only a newer agent knows is one that we do not understand: Unavailable."""
    return ERRORS.get(name, Unavailable)(reason)
