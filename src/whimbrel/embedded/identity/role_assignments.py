"""Role assignments of users and groups in projects: read and change."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from whimbrel.domain.errors import Refused
from whimbrel.embedded.identity import views
from whimbrel.embedded.identity.record_replies import in_path, listed
from whimbrel.embedded.identity.request import Call
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import (
    Assignment,
    Domain,
    Group,
    GroupAssignment,
    Project,
    Role,
    User,
    with_implied,
)

FILTERS = {"user.id": "user_id", "group.id": "group_id", "scope.project.id": "project_id", "role.id": "role_id"}

Line = Assignment | GroupAssignment


async def list_all(call: Call) -> Reply:
    query = call.request.query_params
    wanted = {field: query[name] for name, field in FILTERS.items() if name in query}
    if query.keys() & {"scope.domain.id", "scope.system"}:
        return Reply(views.listing(call.root_url, "role_assignments", []))  # roles are for projects only
    found: Sequence[Line]
    if call.flag("effective"):
        found = await _effective(call, wanted)
    else:
        found = [
            *([] if "group_id" in wanted else await call.store.assignments(Assignment, **wanted)),
            *([] if "user_id" in wanted else await call.store.assignments(GroupAssignment, **wanted)),
        ]
    lines = [_view(call.root_url, each) for each in found]
    if call.flag("include_names"):
        await _add_names(call, lines)
    return Reply(views.listing(call.root_url, "role_assignments", lines))


async def _effective(call: Call, wanted: dict[str, str]) -> list[Assignment]:
    """Return what users have, with implied roles and those of their groups."""
    if "group_id" in wanted:
        raise Problem(400, "Combining effective and group filter will always result in an empty list.")
    user_id, role_id = wanted.pop("user_id", None), wanted.pop("role_id", None)
    found = [each for each in await call.store.assignments(Assignment, **wanted) if user_id in (None, each.user_id)]
    for each in await call.store.assignments(GroupAssignment, **wanted):
        members = await call.store.members(each.group_id)
        found += [
            Assignment(user_id=member.id, project_id=each.project_id, role_id=each.role_id)
            for member in members
            if user_id in (None, member.id)
        ]
    return [each for each in _expand(found, await call.store.records(Role)) if role_id in (None, each.role_id)]


async def list_roles(call: Call) -> Reply:
    """List the roles of a user or group in a project."""
    found: Sequence[Line]
    if "user_id" in call.request.params:
        user, project = await in_path(call, User), await in_path(call, Project)
        found = await call.store.assignments(Assignment, user_id=user.id, project_id=project.id)
    else:
        group, project = await in_path(call, Group), await in_path(call, Project)
        found = await call.store.assignments(GroupAssignment, group_id=group.id, project_id=project.id)
    has = {each.role_id for each in found}
    return listed(call, Role, [role for role in await call.store.records(Role) if role.id in has])


async def check(call: Call) -> Reply:
    wanted = _named(call)
    if not await call.store.assignments(type(wanted), **msgspec.structs.asdict(wanted)):
        raise Problem(404, "Could not find role assignment.")
    return NO_CONTENT


async def assign(call: Call) -> Reply:
    await call.store.assign(_named(call))
    return NO_CONTENT


async def unassign(call: Call) -> Reply:
    await call.store.unassign(_named(call))
    return NO_CONTENT


async def refuse(call: Call) -> Reply:
    """Refuse roles in domains and in the system."""
    raise Refused("Roles can be assigned in projects only, not in domains or the system.")


def _named(call: Call) -> Line:
    """Return the assignment in the path, of a user or of a group."""
    kind: type[Line] = Assignment if "user_id" in call.request.params else GroupAssignment
    return msgspec.convert(call.request.params, kind)


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


def _view(url: str, each: Line) -> dict[str, Any]:
    holder, id_ = ("user", each.user_id) if isinstance(each, Assignment) else ("group", each.group_id)
    return {
        "role": {"id": each.role_id},
        holder: {"id": id_},
        "scope": {"project": {"id": each.project_id}},
        "links": {"assignment": f"{url}/v3/projects/{each.project_id}/{holder}s/{id_}/roles/{each.role_id}"},
    }


async def _add_names(call: Call, lines: list[dict[str, Any]]) -> None:
    domains = {domain.id: domain.name for domain in await call.store.records(Domain)}
    known: dict[str, Mapping[str, User | Project | Group]] = {
        "user": {user.id: user for user in await call.store.records(User)},
        "group": {group.id: group for group in await call.store.records(Group)},
        "project": {project.id: project for project in await call.store.records(Project)},
    }
    roles = {role.id: role.shown_name for role in await call.store.records(Role)}
    for line in lines:
        line["role"]["name"] = roles[line["role"]["id"]]
        for kind, view in {**line, **line["scope"]}.items():
            if kind in known:
                record = known[kind][view["id"]]
                view["name"] = record.name
                view["domain"] = {"id": record.domain_id, "name": domains[record.domain_id]}
