"""Authentication by token or, in tests, without one; then the policy.

Invariant: no request is served without a principal, and every request is checked by exactly one rule.
"""

from typing import Protocol

from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.http.policy import Policy
from whimbrel.http.problem import Problem
from whimbrel.http.request import Request
from whimbrel.placement_api.policy import DEFAULTS, Defaults
from whimbrel.ports.services.identity import Identity, Principal

UNAUTHORIZED = "The request you have made requires authentication."
NO_AUTH_ADMINS = frozenset({"admin", "notused"})  # clients without authentication send the latter


class Principals(Protocol):
    """Determines the principal of a request."""

    async def of(self, request: Request) -> Principal:
        """Raises: Problem: 401. Unavailable: the identity service does not answer."""


class ByToken:
    """Principals by tokens of an identity service. identity_url: where clients get one; None: on the same server."""

    def __init__(self, identity: Identity, identity_url: str | None) -> None:
        self._identity = identity
        self._identity_url = identity_url

    async def of(self, request: Request) -> Principal:
        principal = await request.principal(self._identity)
        if principal is None:
            raise Problem(401, UNAUTHORIZED, headers=request.challenge(self._identity_url))
        return principal


class ByWord:
    """Principals without authentication, for tests: the token is `user` or `user:project`, a header has the roles.

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
    """Placement's policy: a set of defaults, overridden by an operator's file."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def check(self, rule: str, principal: Principal, project: str | None) -> None:
        """Check a request by its rule. project: of its resource; None: the requester's own.

        Raises: Problem: 403: also for every token without a project, whatever its roles.
        """
        target = {"project_id": principal.project_id if project is None else project, "user_id": principal.user_id}
        if not (principal.project_id and self._policy.allows(rule, principal, target)):
            raise Problem(403, f"Policy does not allow {rule} to be performed.")


def access(defaults: Defaults, policy: Policy | None = None) -> Access:
    """Return the access of a set of defaults. policy: these rules with an operator's changes."""
    return Access(policy or Policy.load(DEFAULTS[defaults]))
