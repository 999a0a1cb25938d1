"""The token of this process at Keystone, and the catalog that comes with it.

Invariant: a token is renewed before it expires, and when a service rejects it; concurrent renewals log in once.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime

import httpx
import msgspec
import structlog

from whimbrel.adapters.unanswered import unanswered
from whimbrel.domain.errors import Unavailable
from whimbrel.ports.clock import Clock

log = structlog.get_logger(__name__)

TOKENS = "/v3/auth/tokens"
RENEW_BEFORE_S = 300.0
"""How long a token is valid at least when it is sent, unless its whole lifetime is shorter: longer than most requests
take."""

TYPES = {
    "identity": ("identity",),
    "compute": ("compute",),
    "placement": ("placement",),
    "image": ("image",),
    "network": ("network",),
    "volume": ("block-storage", "volumev3"),
}
"""The types that a service has in catalogs, the preferred one first."""

_VERSION = re.compile(r"/v\d+(\.\d+)?(/.*)?$")


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how this process logs in itself. A domain: {"id": ...} or {"name": ...}."""

    auth_url: str  # without /v3
    username: str
    password: str
    project_name: str
    user_domain: Mapping[str, str]
    project_domain: Mapping[str, str]

    @property
    def proof(self) -> dict[str, object]:
        """Return the body of the login request."""
        user = {"name": self.username, "password": self.password, "domain": self.user_domain}
        return {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": self.project_name, "domain": self.project_domain}},
        }


class CredentialLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login with an application credential, which has its own project."""

    auth_url: str  # without /v3
    id: str
    secret: str

    @property
    def proof(self) -> dict[str, object]:
        credential = {"id": self.id, "secret": self.secret}
        return {"identity": {"methods": ["application_credential"], "application_credential": credential}}


class _Endpoint(msgspec.Struct):
    url: str
    interface: str
    region_id: str | None = None
    region: str | None = None


class _Service(msgspec.Struct):
    type: str
    id: str = ""
    endpoints: list[_Endpoint] = []


class _Role(msgspec.Struct):
    name: str


class _Token(msgspec.Struct):
    expires_at: datetime
    roles: list[_Role] = []
    catalog: list[_Service] = []


class _Issued(msgspec.Struct):
    token: _Token


class OwnToken:
    """The token for requests to other services. client: has the identity service's address as base URL.

    login: returns the credentials, called on demand: they may not exist at start, and may change.
    """

    def __init__(self, client: httpx.AsyncClient, login: Callable[[], Login | CredentialLogin], clock: Clock) -> None:
        self._client = client
        self._login = login
        self._clock = clock
        self._token: str | None = None
        self._renew_at = 0.0
        self._catalog: list[_Service] = []
        self._roles: list[str] = []
        self._logging_in = asyncio.Lock()

    async def get(self, ended: str | None = None) -> str:
        """Return the token. ended: one that is no longer accepted. Raises: Unavailable."""
        if self._is_good(ended):
            return self._token or ""
        async with self._logging_in:  # unless another task has renewed it meanwhile
            if not self._is_good(ended):
                await self._log_in()
            assert self._token is not None, "just set"
            return self._token

    async def endpoint(self, service: str, region: str | None, interfaces: Collection[str]) -> str:
        """Return the URL of a service in the catalog, without its API version. Raises: Unavailable: see there."""
        return unversioned(await self.catalog_url(service, region, interfaces))

    async def catalog_url(self, service: str, region: str | None, interfaces: Collection[str]) -> str:
        """Return the URL of a service in the catalog. interfaces: the preferred one first. region: None: any.

        Raises: Unavailable: Keystone does not answer, or the catalog lacks it.
        """
        await self.get()
        found = [
            endpoint
            for kind in TYPES.get(service, (service,))
            for entry in self._catalog
            if entry.type == kind
            for endpoint in entry.endpoints
            if region in (None, endpoint.region_id, endpoint.region)
        ]
        for interface in interfaces:
            for endpoint in found:
                if endpoint.interface == interface:
                    return endpoint.url.rstrip("/")
        raise Unavailable(
            f"the catalog of Keystone has no {' or '.join(interfaces)} endpoint of the {service} service"
            + (f" in region {region}" if region else "")
        )

    async def service_id(self, service: str) -> str:
        """Return the id of a service in the catalog. Raises: Unavailable: as in `catalog_url`."""
        await self.get()
        for kind in TYPES.get(service, (service,)):
            for entry in self._catalog:
                if entry.type == kind:
                    return entry.id
        raise Unavailable(f"the catalog of Keystone has no {service} service")

    async def roles(self) -> list[str]:
        """Return the names of this process's roles in its project. Raises: Unavailable."""
        await self.get()
        return self._roles

    def _is_good(self, ended: str | None) -> bool:
        return self._token not in (None, ended) and self._clock.now() < self._renew_at

    async def _log_in(self) -> None:
        answer = checked(await send(self._client, "POST", TOKENS, json={"auth": self._login().proof}))
        now = self._clock.now()
        try:
            issued = msgspec.json.decode(answer.content, type=_Issued).token
        except msgspec.DecodeError as error:
            raise not_understood(error) from error
        lifetime = issued.expires_at.timestamp() - now
        self._renew_at = now + max(lifetime - RENEW_BEFORE_S, lifetime / 2)
        self._catalog = issued.catalog
        self._roles = [role.name for role in issued.roles]
        self._token = answer.headers.get("x-subject-token", "")


def unversioned(url: str) -> str:
    """Return the URL of a service without the version of its API and what follows it."""
    return _VERSION.sub("", url.rstrip("/"))


async def send(client: httpx.AsyncClient, method: str, path: str, **what: object) -> httpx.Response:
    """Send a request to the identity service. Raises: Unavailable."""
    try:
        with unanswered("the identity service does not answer"):
            return await client.request(method, path, **what)  # type: ignore[arg-type]
    except Unavailable as error:
        log.warning(error.reason)
        raise Unavailable("The identity service does not answer.") from error


def checked(answer: httpx.Response) -> httpx.Response:
    """Raises: Unavailable: any status but success."""
    if not answer.is_success:
        log.warning("the identity service answers with an error", status=answer.status_code, said=answer.text[:500])
        raise Unavailable(f"The identity service answers {answer.status_code} to this service.")
    return answer


def not_understood(error: Exception) -> Unavailable:
    log.warning("the identity service cannot be understood", error=str(error))
    return Unavailable("The identity service answers what cannot be understood.")
