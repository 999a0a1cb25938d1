"""Who asks, and whether he may: callers by their tokens or, in tests, by their word; then the policy.

Law: nobody comes past without a caller, and every request is held against exactly one rule.
"""

from typing import Protocol

from starlette.requests import Request

from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.http.policy import Policy
from whimbrel.placement_api.policy import DEFAULTS, Defaults
from whimbrel.placement_api.problems import Problem
from whimbrel.ports.services.identity import Identity, Principal

UNAUTHORIZED = "The request you have made requires authentication."
NO_AUTH_ADMINS = frozenset({"admin", "notused"})  # clients send the latter where they are told not to log in


class Principals(Protocol):
    """A way to find out who asks."""

    async def of(self, request: Request) -> Principal:
        """Raises: Problem: 401. Unavailable: nobody can tell now."""
        ...


class ByToken:
    """Callers whom an identity service knows. identity_url: where others are sent; None: on the same server."""

    def __init__(self, identity: Identity, identity_url: str | None) -> None:
        self._identity = identity
        self._identity_url = identity_url

    async def of(self, request: Request) -> Principal:
        token = request.headers.get("x-auth-token")
        principal = await self._identity.principal(token) if token else None
        if principal is None:
            url = self._identity_url or f"{request.url.scheme}://{request.url.netloc}/identity"
            raise Problem(401, UNAUTHORIZED, headers={"www-authenticate": f'Keystone uri="{url}"'})
        return principal


class ByWord:
    """Callers who are believed, for tests: the token is `user` or `user:project`, the roles are as they say.

    Source: Placement's auth_strategy noauth2.
    """

    async def of(self, request: Request) -> Principal:
        headers = request.headers
        token = headers.get("x-auth-token")
        if not token:
            raise Problem(401, UNAUTHORIZED)
        user, _, project = token.partition(":")
        system = headers.get("openstack-system-scope", "")
        project = "" if system else headers.get("x-project-id") or project or user
        roles = headers.get("x-roles")
        if roles is None:
            roles = "admin" if user in NO_AUTH_ADMINS else ""
        return Principal(
            user_id=UserId(user),
            user_name=user,
            project_id=ProjectId(project),
            roles=frozenset(role.strip().lower() for role in roles.split(",") if role.strip()),
            system_scope=system,
        )


class Access:
    """Placement's policy: a set of defaults, and what an operator changed of it."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def check(self, rule: str, principal: Principal, project: str | None) -> None:
        """Hold a request against its rule. project: what it is about; None: the caller's own.

        Raises: Problem: 403: also for every token that is for no project, whatever its roles.
        """
        target = {"project_id": principal.project_id if project is None else project, "user_id": principal.user_id}
        if not (principal.project_id and self._policy.allows(rule, principal, target)):
            raise Problem(403, f"Policy does not allow {rule} to be performed.")


def access(defaults: Defaults, policy: Policy | None = None) -> Access:
    """Make the access of a set of defaults. policy: those rules, where a file changed some."""
    return Access(policy or Policy.load(DEFAULTS[defaults]))
