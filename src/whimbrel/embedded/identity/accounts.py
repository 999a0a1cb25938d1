"""Users, projects and roles: read and change."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from whimbrel.domain.errors import Conflict, Refused
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.identity import extras, passwords, project_tags, views
from whimbrel.embedded.identity.bodies import (
    ChangedNamed,
    ChangedTaggedProject,
    ChangedUser,
    NewNamed,
    NewProject,
    NewUser,
    OwnPassword,
)
from whimbrel.embedded.identity.initial_accounts import ROLES, new_id
from whimbrel.embedded.identity.record_replies import in_path, listed, shown
from whimbrel.embedded.identity.request import UNAUTHORIZED, Call
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Domain, Project, Role, User

# Users


async def list_users(call: Call) -> Reply:
    found = await call.store.records(User, **call.filters("name", "domain_id", "enabled"))
    return listed(call, User, found)


async def create_user(call: Call) -> Reply:
    given, extra = await extras.read(call, "user", NewUser)
    user = User(
        id=UserId(new_id(call.context.ids)),
        domain_id=await domain_of(call, given.domain_id),
        name=given.name.strip(),
        description=given.description or "",
        email=given.email,
        enabled=given.enabled is not False,
        default_project_id=given.default_project_id,
        password_hash=None if given.password is None else await passwords.hashed(given.password),
        extra=extra,
    )
    with unique_name("user", user.name, user.domain_id):
        await call.store.add(user)
    return shown(call, user, 201)


async def update_user(call: Call) -> Reply:
    given, extra = await extras.read(call, "user", ChangedUser)
    changes = changes_of(given)
    if "password" in changes:
        password = changes.pop("password")
        changes["password_hash"] = None if password is None else await passwords.hashed(password)
    user = await in_path(call, User)
    if extra:
        changes["extra"] = user.extra | extra
    with unique_name("user", changes.get("name"), user.domain_id):
        user = await call.store.change(User, user.id, changes)
    return shown(call, user)


async def change_own_password(call: Call) -> Reply:
    given = await call.inside("user", OwnPassword)
    user_id = call.path("user_id")
    user = next(iter(await call.store.records(User, id=user_id)), None)
    right = await call.knows_password(given.original_password, user.password_hash if user else None, user_id)
    if user is None or not right:
        raise Problem(401, UNAUTHORIZED)
    await call.store.change(User, user.id, {"password_hash": await passwords.hashed(given.password)})
    return NO_CONTENT


async def list_projects_of_user(call: Call) -> Reply:
    found = await call.store.projects_of(call.path("user_id"))
    return listed(call, Project, found)


# Projects


async def list_projects(call: Call) -> Reply:
    found = project_tags.narrowed(
        call, await call.store.records(Project, **call.filters("name", "domain_id", "enabled"))
    )
    return listed(call, Project, found)


async def show_project(call: Call) -> Reply:
    """Show a project, and its relatives if they are asked for: a domain above it, and no project below it."""
    project = await in_path(call, Project)
    found: dict[str, Any] = {}
    for relatives, by_id in (("parents", {project.domain_id: None}), ("subtree", None)):
        as_list, as_ids = (call.flag(f"{relatives}_as_{form}") for form in ("list", "ids"))
        if as_list and as_ids:
            raise Problem(400, f"Cannot use {relatives}_as_list and {relatives}_as_ids query params at the same time.")
        if as_list or as_ids:
            found[relatives] = [] if as_list else by_id
    return Reply({"project": views.project(call.root_url, project) | found})


async def create_project(call: Call) -> Reply:
    given, extra = await extras.read(call, "project", NewProject)
    if given.is_domain:
        raise Problem(400, "A project that acts as a domain is not supported: create a domain.")
    domain_id = await domain_of(call, given.domain_id)
    if given.parent_id not in (None, domain_id):
        raise Problem(400, "Projects below other projects are not supported: the parent of a project is its domain.")
    project = Project(
        id=ProjectId(new_id(call.context.ids)),
        domain_id=domain_id,
        name=given.name.strip(),
        description=given.description or "",
        enabled=given.enabled is not False,
        tags=project_tags.checked(given.tags),
        extra=extra,
    )
    with unique_name("project", project.name, project.domain_id):
        await call.store.add(project)
    return shown(call, project, 201)


async def update_project(call: Call) -> Reply:
    given, extra = await extras.read(call, "project", ChangedTaggedProject)
    changes = changes_of(given)
    if "tags" in changes:
        changes["tags"] = project_tags.checked(changes["tags"])
    project = await in_path(call, Project)
    if extra:
        changes["extra"] = project.extra | extra
    with unique_name("project", changes.get("name"), project.domain_id):
        project = await call.store.change(Project, project.id, changes)
    return shown(call, project)


# Roles


async def list_roles(call: Call) -> Reply:
    # Names are in lower case in the store; Keystone's clients may use any case.
    wanted = {name: value.lower() for name, value in call.filters("name").items()}
    found = [] if call.filters("domain_id") else await call.store.records(Role, **wanted)
    return listed(call, Role, found)


async def create_role(call: Call) -> Reply:
    given = await call.inside("role", NewNamed)
    if given.domain_id is not None:
        raise Problem(400, "Roles of domains are not supported: a role is one of the whole cloud.")
    name = given.name.strip()
    role = Role(id=new_id(call.context.ids), name=name.lower(), description=given.description or "", spelling=name)
    with unique_name("role", role.name, None):
        await call.store.add(role)
    return shown(call, role, 201)


async def update_role(call: Call) -> Reply:
    role, changes = await _added_role(call), changes_of(await call.inside("role", ChangedNamed))
    if "name" in changes:
        changes |= {"name": changes["name"].lower(), "spelling": changes["name"]}
    with unique_name("role", changes.get("name"), None):
        role = await call.store.change(Role, role.id, changes)
    return shown(call, role)


async def delete_role(call: Call) -> Reply:
    await call.store.remove(Role, (await _added_role(call)).id)
    return NO_CONTENT


async def _added_role(call: Call) -> Role:
    """Return the role in the path, to be changed. Raises: NotFound; Refused: it is one of the cloud itself."""
    role = await in_path(call, Role)
    if role.name in ROLES:
        raise Refused(f"The role {role.name} is one that the cloud cannot do without.")
    return role


# Common to several kinds


async def domain_of(call: Call, given: str | None) -> str:
    """Return the domain of a new record: the given one, or that of the requester's project. Raises: Problem."""
    wanted = given or call.principal.project_domain_id
    if all(domain.id != wanted for domain in await call.store.records(Domain)):
        raise Problem(404, f"Could not find domain: {wanted}.")
    return wanted


def changes_of(given: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that were sent, under the store's names."""
    sent = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not msgspec.UNSET}
    if "name" in sent:
        sent["name"] = sent["name"].strip()
    if "description" in sent:
        sent["description"] = sent["description"] or ""
    return sent


@contextmanager
def unique_name(kind: str, name: str | None, domain_id: str | None) -> Iterator[None]:
    """Store a record of this name. Raises: Conflict: another one in the domain has it, in Keystone's words."""
    try:
        yield
    except Conflict as error:
        if name is None:
            raise
        where = f" at domain ID {domain_id}" if domain_id else ""
        raise Conflict(
            f"Conflict occurred attempting to store {kind} - Duplicate entry found with name {name}{where}."
        ) from error
