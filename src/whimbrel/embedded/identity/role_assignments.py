"""Role assignments of users in projects: read and change."""

from typing import Any

from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.identity import views
from whimbrel.embedded.identity.request import Ask
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Assignment, Role, with_implied

FILTERS = {"user.id": "user_id", "scope.project.id": "project_id", "role.id": "role_id"}


async def list_all(ask: Ask) -> Reply:
    query = ask.request.query_params
    wanted = {field: query[name] for name, field in FILTERS.items() if name in query}
    effective = ask.flag("effective")
    if effective:  # the requested role may be implied
        role_id = wanted.pop("role_id", None)
    found = await ask.store.assignments(**wanted)
    if effective:
        found = [each for each in _expand(found, await ask.store.roles()) if role_id in (None, each.role_id)]
    lines = [_view(ask.root_url, each) for each in found]
    if ask.flag("include_names"):
        await _add_names(ask, lines)
    return Reply(views.listing(ask.root_url, "role_assignments", lines))


async def list_of_user(ask: Ask) -> Reply:
    """List the roles of a user in a project."""
    user = await ask.store.user(ask.path("user_id"))
    project = await ask.store.project(ask.path("project_id"))
    found = await ask.store.assignments(user_id=user.id, project_id=project.id)
    has = {each.role_id for each in found}
    roles = [role for role in await ask.store.roles() if role.id in has]
    return Reply(views.listing(ask.root_url, "roles", [views.role(ask.root_url, role) for role in roles]))


async def check(ask: Ask) -> Reply:
    wanted = _named(ask)
    if not await ask.store.assignments(user_id=wanted.user_id, project_id=wanted.project_id, role_id=wanted.role_id):
        raise Problem(404, "Could not find role assignment.")
    return NO_CONTENT


async def assign(ask: Ask) -> Reply:
    await ask.store.assign(_named(ask))
    return NO_CONTENT


async def unassign(ask: Ask) -> Reply:
    await ask.store.unassign(_named(ask))
    return NO_CONTENT


def _named(ask: Ask) -> Assignment:
    return Assignment(
        user_id=UserId(ask.path("user_id")),
        project_id=ProjectId(ask.path("project_id")),
        role_id=ask.path("role_id"),
    )


def _expand(found: list[Assignment], roles: list[Role]) -> list[Assignment]:
    """Add the roles that the given ones imply."""
    names = {role.id: role.name for role in roles}
    ids = {role.name: role.id for role in roles}
    whole = {
        (each.user_id, each.project_id, ids[name])
        for each in found
        for name in with_implied([names[each.role_id]])
        if name in ids
    }
    return [Assignment(user_id=user, project_id=project, role_id=role) for user, project, role in sorted(whole)]


def _view(url: str, each: Assignment) -> dict[str, Any]:
    return {
        "role": {"id": each.role_id},
        "user": {"id": each.user_id},
        "scope": {"project": {"id": each.project_id}},
        "links": {"assignment": f"{url}/v3/projects/{each.project_id}/users/{each.user_id}/roles/{each.role_id}"},
    }


async def _add_names(ask: Ask, lines: list[dict[str, Any]]) -> None:
    domains = {domain.id: domain.name for domain in await ask.store.domains()}
    users = {user.id: user for user in await ask.store.users()}
    projects = {project.id: project for project in await ask.store.projects()}
    roles = {role.id: role.name for role in await ask.store.roles()}
    for line in lines:
        line["role"]["name"] = roles[line["role"]["id"]]
        for word, known in ((line["user"], users), (line["scope"]["project"], projects)):
            record = known[word["id"]]
            word["name"] = record.name
            word["domain"] = {"id": record.domain_id, "name": domains[record.domain_id]}
