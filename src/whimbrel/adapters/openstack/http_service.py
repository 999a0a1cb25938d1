"""A client of one service of a cloud over HTTP, for requests in JSON."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from whimbrel.adapters.openstack.connections import Connections
from whimbrel.adapters.openstack.service_client import Answer, Query
from whimbrel.adapters.openstack.session import Session
from whimbrel.adapters.unanswered import unanswered

HEADERS = {"Content-Type": "application/json", "Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "whimbrel"}
UNQUOTED = "/:@!$&'()*+,;=-._~"
UNAUTHORIZED = 401


class HttpService:
    """Implements adapters.openstack.service_client.Service. session: its place, and the tokens of the requests.

    name: for error messages. version: the prefix of all paths, as "/v3".
    """

    def __init__(self, connections: Connections, session: Session, name: str, version: str = "") -> None:
        self._connections = connections
        self._session = session
        self._name = name
        self._version = version

    async def ask(
        self, method: str, path: str, *, query: Query = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        content = None if body is None else msgspec.json.encode(body)
        target = quote(self._version + path, safe=UNQUOTED) + (f"?{urlencode(query)}" if query else "")
        sent = {**HEADERS, **(headers or {})}
        with unanswered(f"the {self._name} service does not answer"):
            token = await self._session.token()
            url = await self._session.root() + target
            answer = await self._connections.ask(method, url, sent | self._session.signature(token), content)
            if answer.status == UNAUTHORIZED:
                token = await self._session.renewed(token)
                answer = await self._connections.ask(method, url, sent | self._session.signature(token), content)
        return answer
