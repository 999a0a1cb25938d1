"""Forwards what the page requests of the API, where the dashboard is a process of its own beside the APIs.

Invariant: it forwards to the API only, with the token of the page's user and with nothing of this cloud's.
"""

import re
from collections.abc import AsyncIterator
from typing import Any, Protocol

import httpx
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ip_addresses import is_plain_beyond_loopback
from whimbrel.embedded.dashboard.change_stream import BEAT_S, EVENTS, EVENTS_HEADERS, STOPPING, until
from whimbrel.embedded.dashboard.login_relay import (
    TOO_LARGE,
    body_of,
    ignore_cookies,
    refusal,
    returned,
    sent_headers,
)
from whimbrel.ports.clock import Clock
from whimbrel.ports.meter import note_route

log = structlog.get_logger(__name__)

SENT = ("accept", "content-type", "x-auth-token", "openstack-api-version", "x-openstack-request-id")
RETURNED = ("content-type", "openstack-api-version", "x-openstack-request-id", "retry-after")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
MAX_BODY_BYTES = 1 << 20
CATALOG_KEPT_S = 300.0
CONNECT_S = 10.0
ANSWER_S = 60.0
PLAN_S = 600.0
"""Plans of large maintenances take long."""
MAINTENANCES = "/whimbrel/maintenances"
SILENCE_S = 4 * BEAT_S
"""Time without data after which a stream of the API counts as broken."""
_COMPUTE = re.compile(r"(https?://.+)/compute(/v2\.1)?/?")
NO_ANSWER = "The API does not answer."


class ApiAddress(Protocol):
    async def of(self, token: str) -> str | None:
        """Return the URL of the API, for the holder of a token; None: the token is not valid. Raises: Unavailable."""


class KnownAddress:
    """Implements ApiAddress for a URL of the settings."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    async def of(self, token: str) -> str | None:
        return self._url


class CatalogAddress:
    """Implements ApiAddress by the catalog of a Keystone, which the user's token may read."""

    def __init__(self, keystone: httpx.AsyncClient, clock: Clock, is_insecure: bool = False) -> None:
        """is_insecure: whether tokens may be sent to other machines over plain HTTP."""
        self._keystone = keystone
        self._clock = clock
        self._is_insecure = is_insecure
        self._url = ""
        self._until = 0.0

    async def of(self, token: str) -> str | None:
        if self._clock.now() < self._until:
            return self._url
        try:
            answer = await self._keystone.get("/v3/auth/catalog", headers={"x-auth-token": token})
        except httpx.HTTPError as trouble:
            log.warning("the identity service does not show its catalog", reason=str(trouble))
            raise Unavailable("The identity service does not answer.") from trouble
        if answer.status_code == 401:
            return None
        if not answer.is_success:
            raise Unavailable("The identity service does not show its catalog.")
        url = _api_in(answer.json()["catalog"])
        if not self._is_insecure and is_plain_beyond_loopback(url):
            raise Unavailable(
                f"The catalog has the compute service at {url}, and tokens would be sent there without TLS: change the"
                " endpoint to https://, or set 'insecure = true' in [services] of the settings."
            )
        self._url, self._until = url, self._clock.now() + CATALOG_KEPT_S
        return url


def _api_in(catalog: list[dict[str, Any]]) -> str:
    """Return the URL of the API. Raises: Unavailable: the catalog has none of this cloud."""
    found = {
        endpoint["interface"]: match[1]
        for service in catalog
        if service["type"] == "compute"
        for endpoint in service["endpoints"]
        if (match := _COMPUTE.fullmatch(endpoint["url"]))
    }
    url = found.get("public") or found.get("internal")
    if url is None:
        raise Unavailable("The catalog has no compute service at /compute: set 'url' in [services] of the settings.")
    return url


class ApiRelay:
    def __init__(self, client: httpx.AsyncClient, address: ApiAddress) -> None:
        self._client = client
        self._address = address
        ignore_cookies(client)

    @property
    def compute(self) -> Starlette:
        """Return the application to be mounted at /compute."""
        return Starlette(routes=[Route("/{path:path}", self._compute, methods=list(METHODS))])

    async def _compute(self, request: Request) -> Response:
        note_route(request.scope, "/{path}")
        if {".", ".."} & set(request.path_params["path"].split("/")):
            return refusal(404, "There is no such path.")
        path = request.scope["raw_path"].decode("ascii")
        return await self._forward(request, path, PLAN_S if MAINTENANCES in path else ANSWER_S)

    async def changes(self, request: Request) -> Response:
        """Answer as the stream of changes of the API does, event by event."""
        note_route(request.scope, "/changes")
        return await self._forward(request, "/dashboard/changes", SILENCE_S)

    async def _forward(self, request: Request, path: str, silence_s: float) -> Response:
        body = await body_of(request, MAX_BODY_BYTES)
        if body is None:
            return refusal(413, TOO_LARGE)
        sent = sent_headers(request, SENT)
        try:
            url = await self._address.of(request.headers.get("x-auth-token", ""))
            if url is None:
                return refusal(401, "Authentication is required: there is no token, or it is not valid (any more).")
            query = f"?{request.url.query}" if request.url.query else ""
            asked = self._client.build_request(
                request.method, url + path + query, content=body, headers=sent,
                timeout=httpx.Timeout(silence_s, connect=CONNECT_S),
            )  # fmt: skip
            answer = await self._client.send(asked, stream=True)
            if answer.headers.get("content-type", "").startswith(EVENTS):
                return _Events(answer)
            content = await answer.aread()
        except Unavailable as trouble:
            return refusal(503, trouble.reason)
        except httpx.HTTPError as trouble:
            log.warning("the API does not answer", path=path, reason=str(trouble))
            return refusal(503, NO_ANSWER)
        return returned(answer, content, RETURNED)


class _Events(StreamingResponse):
    """A stream of the API: it ends with the page's connection, with the API's, and with this process."""

    media_type = EVENTS

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(_parts(answer), answer.status_code, EVENTS_HEADERS)
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if STOPPING in scope:
                self.body_iterator = until(scope[STOPPING], self.body_iterator)
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.aclose()


async def _parts(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for part in answer.aiter_bytes():
            yield part
    except httpx.HTTPError as trouble:  # the page connects again
        log.info("a stream of the API ended", reason=str(trouble))
