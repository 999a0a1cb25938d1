"""The client of the HTTP bus.

Invariant: anything but a response of the agent itself is Unavailable: the order may have been executed or not.
"""

from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from whimbrel.adapters.bus.remote_agent import TIMEOUT_S, granted_s, remote_agent
from whimbrel.adapters.bus.verbs import TROUBLE, VERBS, Verb, decode_trouble, encode
from whimbrel.adapters.unanswered import unanswered
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.agent import Agent


class HttpAgents:
    """Implements ports.hosts.agent.Agents for the hosts behind one endpoint."""

    def __init__(self, url: str, token: str, client: httpx.AsyncClient, timeout_s: float = TIMEOUT_S) -> None:
        """url: where `agents_app` is mounted. client: closed by its owner."""
        self._url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._client = client
        self._timeout_s = timeout_s

    def at(self, host: HostName) -> Agent:
        return remote_agent(self.ask, host)

    async def ask(self, host: HostName, name: str, question: msgspec.Struct) -> Any:
        """Send one order and return its result. Raises: the agent's error; Unavailable."""
        timeout_s = self._timeout_s + granted_s(question)
        url = f"{self._url}/agents/{quote(host, safe='')}/{name}"
        content = encode(question)
        with unanswered(f"no answer from host {host} to {name}"):
            response = await self._client.post(url, content=content, headers=self._headers, timeout=timeout_s)
        try:
            return _answer(VERBS[name], response)
        except msgspec.DecodeError as error:
            raise Unavailable(f"no readable answer from host {host} to {name}: {error}") from error


def _answer(verb: Verb, response: httpx.Response) -> Any:
    if response.status_code == TROUBLE:
        raise decode_trouble(response.content)
    if response.status_code != httpx.codes.OK:
        raise Unavailable(f"{response.url.path} answers {response.status_code}: {response.text[:200]}")
    return verb.decode_answer(response.content)
