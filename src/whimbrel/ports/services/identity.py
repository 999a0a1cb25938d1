"""Who is asking: the identity service as the doors need it, and the records that the embedded one keeps.

Law: a caller's roles are whole (implied ones are in), so that nobody downstream ever works implications out again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from whimbrel.domain.ids import ProjectId, UserId

# A role and the one that it brings along.
IMPLIES = {"admin": "manager", "manager": "member", "member": "reader"}


def with_implied(roles: Iterable[str]) -> frozenset[str]:
    """Give these roles, in lower case, and all that they imply."""
    whole: set[str] = set()
    for role in roles:
        name: str | None = role.lower()
        while name is not None and name not in whole:
            whole.add(name)
            name = IMPLIES.get(name)
    return frozenset(whole)


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The person or service behind a request, from his token.

    An unscoped token: project_id "" and no roles. One for the whole system: project_id "" and system_scope "all".
    """

    user_id: UserId
    user_name: str
    project_id: ProjectId
    project_name: str = ""
    user_domain_id: str = "default"
    project_domain_id: str = "default"
    roles: frozenset[str] = frozenset()  # lower case, implied ones included (admin > manager > member > reader)
    expires_at: float = 0.0
    system_scope: str = ""


class Identity(Protocol):
    async def principal(self, token: str) -> Principal | None:
        """Give who holds this token; None: unknown, expired or revoked. Raises: Unavailable."""
        ...


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    description: str = ""
    enabled: bool = True


class Project(msgspec.Struct, frozen=True, kw_only=True):
    id: ProjectId
    domain_id: str
    name: str
    description: str = ""
    enabled: bool = True


class User(msgspec.Struct, frozen=True, kw_only=True):
    id: UserId
    domain_id: str
    name: str
    description: str = ""
    email: str | None = None
    enabled: bool = True
    default_project_id: str | None = None
    password_hash: str | None = None  # None: nobody can log in with a password


class Role(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str  # lower case
    description: str = ""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A user has a role in a project."""

    user_id: UserId
    project_id: ProjectId
    role_id: str


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """All that a token says."""

    principal: Principal
    methods: list[str]
    audit_ids: list[str]  # its own, then the one that the chain began with
    issued_at: float


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to be made valid. project_id None: without a scope."""

    text: str
    user_id: str
    project_id: str | None
    methods: Sequence[str]
    audit_ids: Sequence[str]
    expires_at: float


class Population(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a new identity service starts with."""

    domains: Sequence[Domain]
    roles: Sequence[Role]
    projects: Sequence[Project]
    users: Sequence[User]
    assignments: Sequence[Assignment]


Changes = Mapping[str, Any]
"""Field name -> new value."""


class IdentityStore(Identity, Protocol):
    """Where the embedded identity service keeps what it knows.

    A token's text is never kept. Whoever loses a role, a project, a password or his account loses the tokens that
    rested on it in the same write. All of it raises Unavailable; adding and changing raise Conflict where a name is
    taken; asking for one record by id, and changing it, raise NotFound.
    """

    async def is_empty(self) -> bool:
        """Tell whether nobody has ever populated it."""
        ...

    async def populate(self, population: Population) -> None:
        """Write all of it or nothing. Raises: Conflict: somebody did."""
        ...

    async def domains(self) -> list[Domain]: ...

    async def users(self, **wanted: Any) -> list[User]:
        """List the users whose fields have these values, by name."""
        ...

    async def user(self, user_id: str) -> User: ...

    async def add_user(self, user: User) -> None: ...

    async def change_user(self, user_id: str, changes: Changes) -> User:
        """Change it and give it as it is now. A new password or enabled=False ends all its tokens."""
        ...

    async def remove_user(self, user_id: str) -> None: ...

    async def projects(self, **wanted: Any) -> list[Project]:
        """List the projects whose fields have these values, by name."""
        ...

    async def projects_of(self, user_id: str) -> list[Project]:
        """List the projects in which this user has a role."""
        ...

    async def project(self, project_id: str) -> Project: ...

    async def add_project(self, project: Project) -> None: ...

    async def change_project(self, project_id: str, changes: Changes) -> Project:
        """Change it and give it as it is now. enabled=False ends all tokens for it."""
        ...

    async def remove_project(self, project_id: str) -> None: ...

    async def roles(self, **wanted: Any) -> list[Role]:
        """List the roles whose fields have these values, by name."""
        ...

    async def role(self, role_id: str) -> Role: ...

    async def add_role(self, role: Role) -> None: ...

    async def remove_role(self, role_id: str) -> None:
        """Raises: Conflict: somebody has it."""
        ...

    async def assignments(self, **wanted: Any) -> list[Assignment]:
        """List the assignments whose fields have these values."""
        ...

    async def assign(self, assignment: Assignment) -> None:
        """Have it. Repeatable. Raises: NotFound: no such user, project or role."""
        ...

    async def unassign(self, assignment: Assignment) -> None:
        """Have it no more. Raises: NotFound: it was not there."""
        ...

    async def issue(self, wanted: NewToken) -> Grant:
        """Make a token valid. Raises: Refused: the user or project is off, or he has no role in it; NotFound."""
        ...

    async def grant(self, token: str) -> Grant:
        """Read what a valid token says. Raises: NotFound."""
        ...

    async def revoke(self, token: str) -> None:
        """Make it invalid. Raises: NotFound: it was not valid."""
        ...
