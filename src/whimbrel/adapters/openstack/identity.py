"""Validates tokens with Keystone v3 (or the embedded identity service) over HTTP.

Invariant: a validated token is trusted for one minute, and never beyond its expiry; if Keystone does not answer, the
result is Unavailable, neither valid nor invalid.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

import httpx
import msgspec
import structlog

from whimbrel.adapters.unanswered import unanswered
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.identity import Principal

log = structlog.get_logger(__name__)

BELIEVED_S = 60.0  # a revoked token may be accepted for this long
MOST_CALLERS = 10_000
TOKENS = "/v3/auth/tokens"


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how this process logs in itself. A domain: {"id": ...} or {"name": ...}."""

    auth_url: str  # without /v3
    username: str
    password: str
    project_name: str
    user_domain: Mapping[str, str]
    project_domain: Mapping[str, str]


class _Domain(msgspec.Struct):
    id: str


class _Role(msgspec.Struct):
    name: str


class _User(msgspec.Struct):
    id: str
    name: str
    domain: _Domain


class _Project(msgspec.Struct):
    id: str
    name: str
    domain: _Domain


class _Token(msgspec.Struct):
    user: _User
    expires_at: datetime
    project: _Project | None = None  # None: unscoped, or scoped to a domain or the system
    system: dict[str, bool] = {}  # {"all": True}: for the whole system
    roles: list[_Role] = []


class _Shown(msgspec.Struct):
    token: _Token


class OwnToken:
    """The token for requests to other services. client: has the identity service's address as base URL.

    login: returns the credentials, called on demand: they may not exist at start.
    """

    def __init__(self, client: httpx.AsyncClient, login: Callable[[], Login]) -> None:
        self._client = client
        self._login = login
        self._token: str | None = None
        self._logging_in = asyncio.Lock()

    async def get(self, ended: str | None = None) -> str:
        """Return the token. ended: one that is no longer accepted. Raises: Unavailable."""
        if self._token not in (None, ended):
            return self._token
        async with self._logging_in:  # unless another task has renewed it meanwhile
            if self._token in (None, ended):
                answer = _checked(await _send(self._client, "POST", TOKENS, json={"auth": _proof(self._login())}))
                self._token = answer.headers.get("x-subject-token", "")
            assert self._token is not None, "just set"
            return self._token


class KeystoneIdentity:
    """Implements ports.services.identity.Identity. client: has login.auth_url as base URL."""

    def __init__(self, client: httpx.AsyncClient, login: Login, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._own = OwnToken(client, lambda: login)
        self._believed: dict[str, tuple[Principal, float]] = {}  # token -> its principal, and trusted until when

    async def principal(self, token: str) -> Principal | None:
        now = self._clock.now()
        principal, until = self._believed.get(token, (None, 0.0))
        if principal is None or now >= until:
            principal = await self._ask(token) if token and token.isascii() else None
            self._remember(token, principal, now)
        return principal if principal and principal.expires_at > now else None

    def _remember(self, token: str, principal: Principal | None, now: float) -> None:
        if principal is None:
            self._believed.pop(token, None)
            return
        if len(self._believed) >= MOST_CALLERS:
            self._believed.clear()
        self._believed[token] = principal, min(now + BELIEVED_S, principal.expires_at)

    async def _ask(self, token: str) -> Principal | None:
        own = await self._own.get()
        answer = await self._show(own, token)
        if answer.status_code == httpx.codes.UNAUTHORIZED:  # this process's own token has expired
            answer = await self._show(await self._own.get(ended=own), token)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return _principal(_checked(answer).content)

    async def _show(self, own: str, token: str) -> httpx.Response:
        headers = {"X-Auth-Token": own, "X-Subject-Token": token}
        return await _send(self._client, "GET", f"{TOKENS}?nocatalog", headers=headers)


async def _send(client: httpx.AsyncClient, method: str, path: str, **what: object) -> httpx.Response:
    try:
        with unanswered("the identity service does not answer"):
            return await client.request(method, path, **what)  # type: ignore[arg-type]
    except Unavailable as error:
        log.warning(error.reason)
        raise Unavailable("The identity service does not answer.") from error


def _checked(answer: httpx.Response) -> httpx.Response:
    """Raises: Unavailable: any status but success."""
    if not answer.is_success:
        log.warning("the identity service answers with an error", status=answer.status_code, said=answer.text[:500])
        raise Unavailable(f"The identity service answers {answer.status_code} to this service.")
    return answer


def _proof(login: Login) -> dict[str, object]:
    user = {"name": login.username, "password": login.password, "domain": login.user_domain}
    return {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": login.project_name, "domain": login.project_domain}},
    }


def _principal(content: bytes) -> Principal:
    try:
        token = msgspec.json.decode(content, type=_Shown).token
    except msgspec.DecodeError as error:
        log.warning("the identity service cannot be understood", error=str(error))
        raise Unavailable("The identity service answers what cannot be understood.") from error
    project = token.project
    return Principal(
        user_id=UserId(token.user.id),
        user_name=token.user.name,
        project_id=ProjectId(project.id if project else ""),
        project_name=project.name if project else "",
        user_domain_id=token.user.domain.id,
        project_domain_id=project.domain.id if project else "",
        roles=frozenset(role.name.lower() for role in token.roles),  # Keystone includes implied roles
        expires_at=token.expires_at.timestamp(),
        system_scope="all" if token.system.get("all") else "",
    )
