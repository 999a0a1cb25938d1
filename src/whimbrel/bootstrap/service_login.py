"""The cloud as a client of its own services: within a process it is trusted, over HTTP it has a token.

Every process of a cloud has the database of the embedded identity service, and issues the token there: no password of
the cloud's own user is needed anywhere.
"""

import secrets
import ssl
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import httpx
from starlette.types import ASGIApp

from whimbrel.adapters.openstack.service_client import InnerService, Service
from whimbrel.adapters.openstack.session import Session, Token
from whimbrel.bootstrap.service_urls import ServiceUrls
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.identity.initial_accounts import DEFAULT_DOMAIN
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.identity import IdentityStore, NewToken, Principal, Project, User

if TYPE_CHECKING:
    from whimbrel.adapters.openstack.connections import Connections

SERVICE_USER = "whimbrel"
SERVICE_PROJECT = "service"
SERVICE_LOGIN = Principal(
    user_id=UserId(SERVICE_USER),
    user_name=SERVICE_USER,
    project_id=ProjectId(SERVICE_PROJECT),
    roles=frozenset({"admin", "service"}),
)
TOKEN_LIFETIME_S = 3600.0
RENEW_BEFORE_S = 600.0
"""How long a token is valid at least when it is sent: longer than a request takes."""


class ServiceLogin:
    """Implements ports.services.identity.Identity for applications without other clients: every principal is the cloud
    itself.
    """

    async def principal(self, token: str) -> Principal | None:
        return SERVICE_LOGIN


def inside(app: ASGIApp, path: str = "") -> InnerService:
    """Return the client of a service in this process, with an application that admits every request."""
    return InnerService(app, path, {"X-Auth-Token": SERVICE_USER, "X-Service-Token": SERVICE_USER})


class IssuedToken:
    """The token of the cloud's own user, issued in the identity database of this process."""

    def __init__(self, store: IdentityStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._token: str | None = None
        self._expires_at = 0.0

    async def get(self, ended: str | None = None) -> str:
        """Return the token. ended: one that is no longer accepted. Raises: Unavailable: there are no accounts yet."""
        if self._token in (None, ended) or self._clock.now() > self._expires_at - RENEW_BEFORE_S:
            self._token, self._expires_at = await self._issue(self._clock.now() + TOKEN_LIFETIME_S)
        assert self._token is not None, "just set"
        return self._token

    async def _issue(self, expires_at: float) -> tuple[str, float]:
        users = await self._store.records(User, name=SERVICE_USER, domain_id=DEFAULT_DOMAIN.id)
        projects = await self._store.records(Project, name=SERVICE_PROJECT, domain_id=DEFAULT_DOMAIN.id)
        if not users or not projects:
            raise Unavailable(f"this cloud has no user '{SERVICE_USER}' yet: run `whimbrel bootstrap`")
        text = secrets.token_hex(32)
        wanted = NewToken(
            text=text,
            user_id=users[0].id,
            project_id=projects[0].id,
            methods=["token"],
            audit_ids=[secrets.token_urlsafe(16)],
            expires_at=expires_at,
        )
        await self._store.issue(wanted)
        return text, expires_at


class ServiceClients:
    """Makes clients of the services of this cloud that other processes have. closing: closes them."""

    def __init__(self, urls: ServiceUrls, token: Token, ca_file: str | None, closing: AsyncExitStack) -> None:
        self.urls = urls
        self._token = token
        self._ca_file = ca_file
        self._closing = closing

    async def service(self, name: str, version: str, timeout_s: float) -> Service:
        """Return the client of a JSON API. version: "/v3"."""
        from whimbrel.adapters.openstack.http_service import HttpService

        return HttpService(
            self._connections(name, timeout_s), Session(self._token, partial(self._url, name)), name, version
        )

    async def http(self, name: str, timeout_s: float) -> httpx.AsyncClient:
        """Return a client that is not only asked for JSON."""
        from whimbrel.adapters.openstack.steady_transport import SteadyTransport

        transport = SteadyTransport(self._connections(name, timeout_s))
        url = await self._url(name)
        return httpx.AsyncClient(base_url=url, timeout=timeout_s, auth=Session(self._token), transport=transport)

    def _connections(self, name: str, timeout_s: float) -> "Connections":
        from whimbrel.adapters.openstack.connections import Connections

        connections = Connections(self._verify(getattr(self.urls, name)), timeout_s=timeout_s, settings="[services]")
        self._closing.push_async_callback(connections.close)
        return connections

    async def _url(self, name: str) -> str:
        url: str = getattr(self.urls, name)
        return url

    def _verify(self, url: str) -> "ssl.SSLContext | bool":
        if not url.startswith("https:"):
            return False  # reading the certificates of the system takes longer than the rest of the start
        return ssl.create_default_context(cafile=self._ca_file)
