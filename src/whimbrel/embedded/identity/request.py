"""One request to the identity service: its principal, the rules, and the error format.

Invariant: a handler runs only after its rule has admitted the request. Every error has Keystone's format.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar

import msgspec

from whimbrel.domain.errors import Refused, WorldError
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.identity.attempts import Attempts
from whimbrel.embedded.identity.service_catalog import Catalog
from whimbrel.http.app import Shape
from whimbrel.http.call import Admitted
from whimbrel.http.failed_attempts import TooManyAttempts
from whimbrel.http.problem import Problem, problem_of
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request
from whimbrel.http.routes import Route
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.services.identity import IdentityStore, Principal

NOBODY = Principal(user_id=UserId(""), user_name="", project_id=ProjectId(""))
UNAUTHORIZED = "The request you have made requires authentication."
FORBIDDEN = "You are not authorized to perform the requested action."

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Context:
    """The dependencies of handlers."""

    store: IdentityStore
    clock: Clock
    ids: IdSource
    catalog: Catalog
    attempts: Attempts


@dataclass(frozen=True, kw_only=True)
class Call(Admitted):
    """One request; its principal is NOBODY if the route is public."""

    body_limit_bytes: ClassVar = 112 << 10  # Keystone's limit

    context: Context

    @property
    def store(self) -> IdentityStore:
        return self.context.store

    @property
    def root_url(self) -> str:
        return self.request.root_url

    def flag(self, name: str) -> bool:
        """Check whether a query flag is set; a flag without a value is."""
        return self.request.query_params.get(name, "0").lower() not in ("0", "false")

    def filters(self, *names: str) -> dict[str, Any]:
        """Return the query parameters of these names."""
        query = self.request.query_params
        wanted: dict[str, Any] = {name: query[name] for name in names if name in query}
        if "enabled" in wanted:
            wanted["enabled"] = self.flag("enabled")
        return wanted

    async def inside(self, key: str, kind: type[T]) -> T:
        """Decode the value of the one key of the body that is used. Raises: Problem: 400, 413."""
        kind_of_body = wrapper(key, kind)  # type: ignore[arg-type] # mypy takes a type for not hashable
        found: T = getattr(await self.body(kind_of_body), key)
        return found

    async def knows_password(self, password: str, stored: str | None, account: str) -> bool:
        """Check the password of an account, which need not exist. Raises: Problem: 429."""
        address, _port = self.request.scope.get("client") or ("", 0)
        try:
            return await self.context.attempts.is_right(password, stored, account, address)
        except TooManyAttempts as error:
            raise Problem(429, str(error), headers={"retry-after": str(error.retry_after_s)}) from None


@cache
def wrapper(key: str, kind: Any) -> type[msgspec.Struct]:
    """Return the type of a body with this outer key."""
    return msgspec.defstruct("Body", [(key, kind)])


Handler = Callable[[Call], Awaitable[Reply]]
Rule = Callable[[Call], bool]


def everybody(call: Call) -> bool:
    """Admit every request, with or without a token."""
    return True


def holder(call: Call) -> bool:
    """Admit the holder of a valid token."""
    return call.principal is not NOBODY


def admin(call: Call) -> bool:
    """Admit an administrator, and to what only reads, a reader in the system."""
    principal = call.principal
    reads = call.request.method in ("GET", "HEAD") and principal.system_scope and "reader" in principal.roles
    return "admin" in principal.roles or bool(reads)


def oneself(call: Call) -> bool:
    """Admit an administrator, and the user in the path."""
    return admin(call) or (holder(call) and call.path("user_id") == call.principal.user_id)


def insider(call: Call) -> bool:
    """Admit an administrator, and a token for the project in the path."""
    return admin(call) or (holder(call) and call.path("project_id") == call.principal.project_id)


def admission(context: Context) -> Callable[[Request, Route], Awaitable[Call]]:
    """Return the admission check."""

    async def admit(request: Request, route: Route) -> Call:
        if request.has_nul:
            raise Problem(400, "A NUL character is not allowed.")
        call = Call(context=context, request=request, principal=await request.principal(context.store) or NOBODY)
        if not route.rule(call):
            raise Problem(403, FORBIDDEN) if holder(call) else Problem(401, UNAUTHORIZED)
        return call

    return admit


def _refusal(request: Request, problem: Problem) -> Reply:
    error = {"code": problem.status, "title": HTTPStatus(problem.status).phrase, "message": problem.message}
    headers = {**problem.headers, **(request.challenge(request.root_url) if problem.status == 401 else {})}
    return Reply({"error": error}, problem.status, headers)


def _translate(error: WorldError) -> Problem:
    return problem_of(error, ((Refused, 403),))


def _headers(request: Request, reply: Reply) -> Mapping[str, str]:
    return {"vary": "X-Auth-Token"}


SHAPE = Shape(refusal=_refusal, translate=_translate, headers=_headers)
