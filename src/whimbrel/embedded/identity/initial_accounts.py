"""Populate a new identity service: the first domain, roles, projects and users.

Law: passwords are written down before they become valid, so that no crash leaves a cloud that nobody can enter.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.identity.passwords import RANDOM_COST_LOG2, hash_now, hashed
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.identity import Assignment, Domain, IdentityStore, Population, Project, Role, User

DEFAULT_DOMAIN = Domain(id="default", name="Default", description="The default domain")
ROLES = ("admin", "manager", "member", "reader", "service")


class FirstUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user to begin with; the projects that his roles name are made too."""

    name: str
    project: str  # his default project
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
    users: Sequence[FirstUser] = FIRST_USERS,
    write_down: Callable[[Passwords], None] = lambda _: None,
    prepare: Callable[[Population], Awaitable[None]] = _nothing,
) -> Passwords | None:
    """Populate a new store and give the passwords that were generated; None: it was populated before.

    write_down: keep the passwords where people find them. It is called before they are valid, so when the process dies
    in between, the next start comes here again and writes new ones over them.
    prepare: make what is to be there as soon as these people are; it is repeated in the same way, for other people.
    """
    if not await store.is_empty():
        return None
    passwords = {user.name: secrets.token_hex(24) for user in users}
    write_down(passwords)
    population = _population(ids, users, passwords)
    await prepare(population)
    try:
        await store.populate(population)
    except Conflict:
        return None
    return passwords


async def reset_password(store: IdentityStore, name: str) -> str:
    """Give a user a new generated password. Raises: NotFound."""
    found = await store.users(name=name, domain_id=DEFAULT_DOMAIN.id)
    if not found:
        raise NotFound(f"there is no user {name}")
    password = secrets.token_hex(24)
    await store.change_user(found[0].id, {"password_hash": await hashed(password)})
    return password


def _population(ids: IdSource, users: Sequence[FirstUser], passwords: Passwords) -> Population:
    roles = {name: Role(id=new_id(ids), name=name) for name in ROLES}
    names = dict.fromkeys(project for user in users for project in (user.project, *user.roles))
    projects = {name: Project(id=ProjectId(new_id(ids)), domain_id=DEFAULT_DOMAIN.id, name=name) for name in names}
    people = {
        user.name: User(
            id=UserId(new_id(ids)),
            domain_id=DEFAULT_DOMAIN.id,
            name=user.name,
            default_project_id=projects[user.project].id,
            password_hash=hash_now(passwords[user.name], RANDOM_COST_LOG2),
        )
        for user in users
    }
    return Population(
        domains=[DEFAULT_DOMAIN],
        roles=list(roles.values()),
        projects=list(projects.values()),
        users=list(people.values()),
        assignments=[
            Assignment(user_id=people[user.name].id, project_id=projects[project].id, role_id=roles[role].id)
            for user in users
            for project, names in user.roles.items()
            for role in names
        ],
    )


def new_id(ids: IdSource) -> str:
    """Give an id as Keystone's are: 32 hexadecimal digits."""
    return ids.uuid().replace("-", "")
