"""Requesters: the identity service as applications use it, and the records of the embedded one.

Invariant: a requester's roles include all implied ones, so that no other code evaluates implications.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from whimbrel.domain.ids import ProjectId, UserId

# A role and the role that it implies.
IMPLIES = {"admin": "manager", "manager": "member", "member": "reader"}


def with_implied(roles: Iterable[str]) -> frozenset[str]:
    """Return these roles, in lower case, with all roles that they imply."""
    whole: set[str] = set()
    for role in roles:
        name: str | None = role.lower()
        while name is not None and name not in whole:
            whole.add(name)
            name = IMPLIES.get(name)
    return frozenset(whole)


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The user or service of a request, from its token.

    An unscoped token has project_id "" and no roles, a system-scoped one project_id "" and system_scope "all".
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
        """Return the principal of this token; None: unknown, expired or revoked. Raises: Unavailable."""


class Projects(Protocol):
    async def has_project(self, project_id: str, token: str) -> bool:
        """Check whether a project exists; True as well if the owner of the token may not know, or the service is down.

        Source: Nova refuses quotas and access for an unknown project only if Keystone answers 404.
        """


class EveryProject:
    """Implements Projects for a process without an identity service that could be asked."""

    async def has_project(self, project_id: str, token: str) -> bool:
        return True


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
    tags: list[str] = []
    extra: dict[str, Any] = {}  # attributes without a meaning here, as they were sent


class User(msgspec.Struct, frozen=True, kw_only=True):
    id: UserId
    domain_id: str
    name: str
    description: str = ""
    email: str | None = None
    enabled: bool = True
    default_project_id: str | None = None
    password_hash: str | None = None  # None: no login with a password
    extra: dict[str, Any] = {}  # attributes without a meaning here, as they were sent


class Role(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str  # lower case
    description: str = ""
    spelling: str = ""  # the name as it was sent

    @property
    def shown_name(self) -> str:
        """Return its name in the case in which it was sent, as Keystone does, which compares without case.

        An older process that renames a role leaves the spelling of the former name.
        """
        return self.spelling if self.spelling.lower() == self.name else self.name


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    user_id: UserId
    project_id: ProjectId
    role_id: str


class Group(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    domain_id: str
    name: str
    description: str = ""


class GroupAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """A role that all members of a group have in a project."""

    group_id: str
    project_id: ProjectId
    role_id: str


class SystemAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """A role that a user has in the system, which is no project."""

    user_id: UserId
    role_id: str


class SystemGroupAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """A role that all members of a group have in the system."""

    group_id: str
    role_id: str


AnyAssignment = Assignment | GroupAssignment | SystemAssignment | SystemGroupAssignment


class ApplicationCredential(msgspec.Struct, frozen=True, kw_only=True):
    """A login of a program, as one user in one project. It ends with the user's roles there."""

    id: str
    user_id: UserId
    project_id: ProjectId
    name: str
    secret_hash: str
    roles: list[str]  # names, implied ones included; a token has those of them that the user still has
    description: str = ""
    unrestricted: bool = False  # whether its tokens may manage application credentials
    expires_at: float | None = None  # seconds since 1970; None: never


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A secret of a user for another protocol, e.g. of type "ec2". The service only stores it."""

    id: str
    user_id: UserId
    type: str
    blob: str
    project_id: ProjectId | None = None


class CatalogRegion(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    description: str = ""
    parent_region_id: str | None = None


class CatalogService(msgspec.Struct, frozen=True, kw_only=True):
    """A service that administrators have added to the catalog."""

    id: str
    type: str
    name: str = ""
    description: str = ""
    enabled: bool = True


class CatalogEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of an added service. interface: "public", "internal" or "admin"."""

    id: str
    service_id: str
    interface: str
    url: str
    region_id: str | None = None
    enabled: bool = True


class RegisteredLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of every project on a resource of a service, unless it has one of its own. -1: none."""

    id: str
    service_id: str
    resource_name: str
    default_limit: int
    region_id: str = ""  # "": in all regions
    description: str | None = None


class ProjectLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of one project, or of one domain, instead of the registered one. -1: none."""

    id: str
    registered_limit_id: str
    resource_limit: int
    project_id: str | None = None
    domain_id: str | None = None
    description: str | None = None


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    principal: Principal
    methods: list[str]
    audit_ids: list[str]  # its own, then that of the first token of the chain
    issued_at: float
    application_credential_id: str | None = None  # from which the token was issued


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to issue. application_credential_id: the project and roles are its own.

    project_id None: unscoped, or for the system if system_scope is "all".
    """

    text: str
    user_id: str
    project_id: str | None
    methods: Sequence[str]
    audit_ids: Sequence[str]
    expires_at: float
    application_credential_id: str | None = None
    system_scope: str = ""


class Population(msgspec.Struct, frozen=True, kw_only=True):
    """The initial contents of an identity service."""

    domains: Sequence[Domain]
    roles: Sequence[Role]
    projects: Sequence[Project]
    users: Sequence[User]
    assignments: Sequence[Assignment]
    system_assignments: Sequence[SystemAssignment] = ()


Changes = Mapping[str, Any]
"""Field name -> new value."""

RoleAssignment = TypeVar("RoleAssignment", bound=AnyAssignment)

Record = TypeVar(
    "Record",
    Domain,
    User,
    Project,
    Role,
    Group,
    ApplicationCredential,
    Credential,
    CatalogRegion,
    CatalogService,
    CatalogEndpoint,
    RegisteredLimit,
    ProjectLimit,
)


class IdentityStore(Identity, Protocol):
    """The records of the embedded identity service.

    A token's text is never stored. The loss of a role, project, password or account revokes, in the same write, the
    tokens that depend on it. All methods raise Unavailable; adding and changing raise Conflict if a name is taken;
    reading and changing one record by id raise NotFound.
    """

    async def is_empty(self) -> bool:
        """Check whether it has never been populated."""

    async def populate(self, population: Population) -> None:
        """Write all or nothing. Raises: Conflict: it is populated already."""

    # An id that others refer to cannot be removed: Conflict.

    async def records(self, kind: type[Record], **wanted: Any) -> list[Record]:
        """Return the records of this kind with these field values, by name."""

    async def record(self, kind: type[Record], record_id: str) -> Record: ...

    async def add(self, *records: Record) -> None:
        """Add all or none. Raises: Conflict: also if one refers to something that does not exist."""

    async def change(self, kind: type[Record], record_id: str, changes: Changes) -> Record:
        """Change a record and return it. A new name of a user, project or role is in the tokens at once.

        A new password, and enabled=False of a user, project or domain, revoke the tokens that depend on it.
        """

    async def remove(self, kind: type[Record], record_id: str) -> None:
        """Remove a record, and what depends on it: tokens of an application credential, those that a group's roles
        permitted, the assignments of a role, and the groups, users and projects of a domain.

        Raises: Conflict: also if a role is assigned at the same moment.
        """

    # Projects and assignments

    async def projects_of(self, user_id: str) -> list[Project]:
        """Return the projects in which this user has a role."""

    async def tag_project(self, project_id: str, edit: Callable[[list[str]], list[str]]) -> Project:
        """Change a project's tags in one transaction and return it. Raises: NotFound; what `edit` raises."""

    async def assignments(self, kind: type[RoleAssignment], **wanted: Any) -> list[RoleAssignment]:
        """Return the assignments of this kind with these field values."""

    async def assign(self, assignment: AnyAssignment) -> None:
        """Add an assignment. Repeatable. Raises: NotFound: no such user or group, project or role."""

    async def unassign(self, assignment: AnyAssignment) -> None:
        """Remove an assignment, and the application credentials of the user, or of each member, in its project.

        Raises: NotFound.
        """

    async def members(self, group_id: str) -> list[User]:
        """Return the members of a group, by name."""

    async def groups_of(self, user_id: str) -> list[Group]: ...

    async def join(self, group_id: str, user_id: str) -> None:
        """Make a user a member of a group. Repeatable. Raises: NotFound."""

    async def leave(self, group_id: str, user_id: str) -> None:
        """End a membership, and what depends on it as in `unassign`. Raises: NotFound: the user is no member."""

    async def issue(self, wanted: NewToken) -> Grant:
        """Issue a token.

        Raises: Refused: the user or project is disabled, or the user has no role in it or in the system; NotFound.
        """

    async def grant(self, token: str) -> Grant:
        """Return the contents of a valid token. Raises: NotFound."""

    async def revoke(self, token: str) -> None:
        """Revoke a token. Raises: NotFound: it was not valid."""
