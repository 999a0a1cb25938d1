"""Validates tokens with Keystone v3 (or the embedded identity service) over HTTP.

Invariant: a validated token is trusted for one minute, never beyond its expiry, and not after a service has rejected
it and Keystone, too; if Keystone does not answer, the
result is Unavailable, neither valid nor invalid.
"""

from datetime import datetime
from urllib.parse import quote

import httpx
import msgspec

from whimbrel.adapters.openstack.own_token import TOKENS, OwnToken, checked, not_understood, send
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.identity import Principal

BELIEVED_S = 60.0  # a revoked token may be accepted for this long
MOST_CALLERS = 10_000


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


class KeystoneIdentity:
    """Implements Identity and Projects of ports.services.identity.

    client: of Keystone. own: the token of this process there.
    """

    def __init__(self, client: httpx.AsyncClient, own: OwnToken, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._own = own
        self._believed: dict[str, tuple[Principal, float]] = {}  # token -> its principal, and trusted until when

    async def principal(self, token: str) -> Principal | None:
        now = self._clock.now()
        principal, until = self._believed.get(token, (None, 0.0))
        if principal is None or now >= until:
            principal = await self._ask(token) if token and token.isascii() else None
            self._remember(token, principal, now)
        return principal if principal and principal.expires_at > now else None

    async def accepts(self, token: str) -> bool:
        """Ask about a token that another service has rejected, and no longer trust it if Keystone does not.

        One that has expired is accepted for as long as services accept it beside a service token.
        Raises: Unavailable.
        """
        is_accepted = await self._ask(token, "&allow_expired=1") is not None
        if not is_accepted:
            self._believed.pop(token, None)
        return is_accepted

    async def has_project(self, project_id: str, token: str) -> bool:
        try:
            path = f"/v3/projects/{quote(project_id, safe='')}"
            answer = await send(self._client, "GET", path, headers={"X-Auth-Token": token})
        except Unavailable:
            return True
        return answer.status_code != httpx.codes.NOT_FOUND

    def _remember(self, token: str, principal: Principal | None, now: float) -> None:
        if principal is None:
            self._believed.pop(token, None)
            return
        if len(self._believed) >= MOST_CALLERS:
            self._believed.clear()
        self._believed[token] = principal, min(now + BELIEVED_S, principal.expires_at)

    async def _ask(self, token: str, query: str = "") -> Principal | None:
        own = await self._own.get()
        answer = await self._show(own, token, query)
        if answer.status_code == httpx.codes.UNAUTHORIZED:  # this process's own token has expired
            answer = await self._show(await self._own.get(ended=own), token, query)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return _principal(checked(answer).content)

    async def _show(self, own: str, token: str, query: str) -> httpx.Response:
        headers = {"X-Auth-Token": own, "X-Subject-Token": token}
        return await send(self._client, "GET", f"{TOKENS}?nocatalog{query}", headers=headers)


def _principal(content: bytes) -> Principal:
    try:
        token = msgspec.json.decode(content, type=_Shown).token
    except msgspec.DecodeError as error:
        raise not_understood(error) from error
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
