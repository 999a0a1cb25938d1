"""A service over httpx, for applications of this process and for fakes of services: transports that aiohttp has not."""

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from whimbrel.adapters.openstack.service_client import Answer, Query
from whimbrel.adapters.unanswered import unanswered


class HttpxService:
    """Implements adapters.openstack.service_client.Service. client: has the service's address, and adds tokens."""

    def __init__(self, client: httpx.AsyncClient, name: str) -> None:
        self._client = client
        self._name = name

    async def ask(
        self, method: str, path: str, *, query: Query = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        content = None if body is None else msgspec.json.encode(body)
        sent = {"Content-Type": "application/json", **(headers or {})}
        with unanswered(f"the {self._name} service does not answer"):
            answer = await self._client.request(method, path, params=list(query) or None, content=content, headers=sent)
        return Answer(answer.status_code, answer.content)
