"""The dashboard as a process of its own, beside any number of APIs: it has no database, no bus and no secrets.

Invariant: nothing is asked at the start. Whoever breaks into this process has the tokens of those who use it, and
nothing else.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx
from starlette.types import ASGIApp

from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.openstack.own_token import unversioned
from whimbrel.bootstrap.health import HEALTH, TIMEOUT_S, HealthAnswer
from whimbrel.bootstrap.http_server import DASHBOARD
from whimbrel.domain.errors import Invalid
from whimbrel.embedded.dashboard.api_relay import ApiRelay, CatalogAddress, KnownAddress
from whimbrel.embedded.dashboard.app import Dashboard
from whimbrel.embedded.dashboard.login_relay import LoginRelay
from whimbrel.settings.sections import ServicesTable

LOGIN_S = 60.0
"""The longest that the identity service may take."""


class ApiHealth(HealthAnswer):
    """A dashboard can serve if the API can. url: None: the catalog of a user's login says where it is."""

    def __init__(self, client: httpx.AsyncClient, url: str | None) -> None:
        self._client = client
        self._url = url

    async def trouble(self) -> str | None:
        if self._url is None:
            return None
        try:
            answer = await self._client.get(f"{self._url}/{HEALTH}", timeout=TIMEOUT_S)
        except httpx.HTTPError:
            return "the API does not answer"
        return None if answer.is_success else "the API cannot serve"


@dataclass(frozen=True)
class SeparateDashboard:
    """services: its applications by their paths."""

    services: Mapping[str, ASGIApp]
    health: ApiHealth

    async def run(self) -> None:
        """Wait until cancelled: it has no background work."""
        await asyncio.Event().wait()


@asynccontextmanager
async def open_dashboard(services: ServicesTable) -> AsyncIterator[SeparateDashboard]:
    """Raises: Invalid: the settings say neither where the API is nor where an identity service is."""
    url = services.url and services.url.rstrip("/")
    identity = services.identity or (url and f"{url}/identity")
    if not identity:
        raise Invalid(
            "nothing says where the API is: give --api, or set 'url' in [services] of the settings; or give the URL of"
            " a Keystone with --identity, whose catalog has it"
        )
    async with AsyncExitStack() as closing:
        trusted = _trusted(services.ca_file)
        unlimited = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        client = await closing.enter_async_context(httpx.AsyncClient(verify=trusted, limits=unlimited, trust_env=False))
        keystone = await closing.enter_async_context(
            httpx.AsyncClient(base_url=unversioned(identity), verify=trusted, timeout=LOGIN_S, trust_env=False)
        )
        catalog = CatalogAddress(keystone, SystemClock(), services.insecure)
        relay = ApiRelay(client, KnownAddress(url) if url else catalog)
        page = Dashboard(relay.changes, LoginRelay(keystone)).app
        yield SeparateDashboard({"compute": relay.compute, DASHBOARD: page}, ApiHealth(client, url))


def _trusted(ca_file: str | None) -> ssl.SSLContext:
    """Raises: Invalid: the file has no certificates."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise Invalid(
            f"[services]: 'ca_file' is {ca_file}, which cannot be used: {error.strerror or error}; name a file with"
            " certificates in PEM"
        ) from None
