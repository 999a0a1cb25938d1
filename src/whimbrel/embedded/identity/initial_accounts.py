"""Populate a new identity service: the first domain, roles, projects and users.

Invariant: passwords are written to a file before they become valid, so that a crash leaves no cloud without access.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.identity.passwords import RANDOM_COST_LOG2, hash_now, hashed
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.identity import (
    Assignment,
    Domain,
    IdentityStore,
    Population,
    Project,
    Role,
    SystemAssignment,
    User,
)

DEFAULT_DOMAIN = Domain(id="default", name="Default", description="The default domain")
ROLES = ("admin", "manager", "member", "reader", "service")


class FirstUser(msgspec.Struct, frozen=True, kw_only=True):
    """An initial user; the projects of its roles are created too."""

    name: str
    project: str  # the default project
    roles: Mapping[str, Sequence[str]]  # project -> roles in it


FIRST_USERS = (
    FirstUser(name="demo", project="demo", roles={"demo": ["member"]}),
    FirstUser(name="admin", project="admin", roles={"admin": ["admin"], "demo": ["admin"]}),
    FirstUser(name="whimbrel", project="service", roles={"service": ["admin", "service"]}),
)

Passwords = Mapping[str, str]
"""User name -> password."""


async def _nothing(_population: Population) -> None:
    """Prepare nothing."""


async def bootstrap(
    store: IdentityStore,
    ids: IdSource,
    write_down: Callable[[Passwords], None] = lambda _: None,
    prepare: Callable[[Population], Awaitable[None]] = _nothing,
) -> Passwords | None:
    """Populate a new store and return the generated passwords; None: it was populated before.

    write_down: stores the passwords for users. It is called before they are valid, so if the process dies in between,
    the next start generates new ones and overwrites them.
    prepare: creates objects that must exist as soon as the users do; it is repeated in the same way, for new user ids.
    """
    if not await store.is_empty():
        return None
    passwords = {user.name: secrets.token_hex(24) for user in FIRST_USERS}
    write_down(passwords)
    population = _population(ids, passwords)
    await prepare(population)
    try:
        await store.populate(population)
    except Conflict:
        return None
    return passwords


async def reset_password(store: IdentityStore, name: str) -> str:
    """Set a new generated password of a user and return it. Raises: NotFound."""
    found = await store.records(User, name=name, domain_id=DEFAULT_DOMAIN.id)
    if not found:
        raise NotFound(f"there is no user {name}")
    password = secrets.token_hex(24)
    await store.change(User, found[0].id, {"password_hash": await hashed(password)})
    return password


def _population(ids: IdSource, passwords: Passwords) -> Population:
    roles = {name: Role(id=new_id(ids), name=name) for name in ROLES}
    names = dict.fromkeys(project for user in FIRST_USERS for project in (user.project, *user.roles))
    projects = {name: Project(id=ProjectId(new_id(ids)), domain_id=DEFAULT_DOMAIN.id, name=name) for name in names}
    people = {
        user.name: User(
            id=UserId(new_id(ids)),
            domain_id=DEFAULT_DOMAIN.id,
            name=user.name,
            default_project_id=projects[user.project].id,
            password_hash=hash_now(passwords[user.name], RANDOM_COST_LOG2),
        )
        for user in FIRST_USERS
    }
    return Population(
        domains=[DEFAULT_DOMAIN],
        roles=list(roles.values()),
        projects=list(projects.values()),
        users=list(people.values()),
        assignments=[
            Assignment(user_id=people[user.name].id, project_id=projects[project].id, role_id=roles[role].id)
            for user in FIRST_USERS
            for project, names in user.roles.items()
            for role in names
        ],
        # As Keystone's bootstrap: so that somebody can assign roles in the system with a token for it.
        system_assignments=[SystemAssignment(user_id=people["admin"].id, role_id=roles["admin"].id)],
    )


def new_id(ids: IdSource) -> str:
    """Return an id in Keystone's format: 32 hexadecimal digits."""
    return ids.uuid().replace("-", "")
