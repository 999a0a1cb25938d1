"""Role assignments of users and groups, in projects and in the system: read and change."""

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
    AnyAssignment,
    Assignment,
    Domain,
    Group,
    GroupAssignment,
    Project,
    Role,
    SystemAssignment,
    SystemGroupAssignment,
    User,
    with_implied,
)

FILTERS = {"user.id": "user_id", "group.id": "group_id", "scope.project.id": "project_id", "role.id": "role_id"}

KINDS: Mapping[tuple[str, ...], type[AnyAssignment]] = {
    ("user_id", "project_id"): Assignment,
    ("group_id", "project_id"): GroupAssignment,
    ("user_id",): SystemAssignment,
    ("group_id",): SystemGroupAssignment,
}
"""What the path of an assignment names beside the role -> its kind."""


async def list_all(call: Call) -> Reply:
    query = call.request.query_params
    wanted = {field: query[name] for name, field in FILTERS.items() if name in query}
    for other in ("domain", "project"):
        if query.get("scope.system") and query.get(f"scope.{other}.id"):
            raise Problem(400, f"Specify system or {other}, not both")
    found: Sequence[AnyAssignment]
    if "scope.domain.id" in query:
        found = []  # there are no roles in domains
    elif call.flag("effective"):
        found = await _effective(call, wanted)
    else:
        found = await _direct(call, wanted, only_system=query.get("scope.system") == "all")
    lines = [_view(call.root_url, each) for each in found]
    if call.flag("include_names"):
        await _add_names(call, lines)
    return Reply(views.listing(call.root_url, "role_assignments", lines))


async def _direct(call: Call, wanted: dict[str, str], only_system: bool) -> list[AnyAssignment]:
    other = "group_id" if "user_id" in wanted else "user_id" if "group_id" in wanted else None
    found: list[AnyAssignment] = []
    for named, kind in KINDS.items():
        is_of_system = "project_id" not in named
        if other not in named and not (is_of_system and "project_id" in wanted) and (is_of_system or not only_system):
            found += await call.store.assignments(kind, **wanted)
    return found


async def _effective(call: Call, wanted: dict[str, str]) -> list[Assignment]:
    """Return what users have in projects, with implied roles and those of their groups.

    Source: Keystone 30 shows no roles in the system here, whatever the filters.
    """
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
    """List the roles of a user or group in a project or in the system."""
    params = call.request.params
    await (in_path(call, User) if "user_id" in params else in_path(call, Group))
    if "project_id" in params:
        await in_path(call, Project)
    found: Sequence[AnyAssignment] = await call.store.assignments(_kind(call), **params)
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
    """Refuse roles in domains."""
    raise Refused("Roles can be assigned in projects and in the system, not in domains.")


def _kind(call: Call) -> type[AnyAssignment]:
    return next(kind for named, kind in KINDS.items() if call.request.params.keys() >= set(named))


def _named(call: Call) -> AnyAssignment:
    """Return the assignment in the path."""
    return msgspec.convert(call.request.params, _kind(call))


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


def _view(url: str, each: AnyAssignment) -> dict[str, Any]:
    fields = msgspec.structs.asdict(each)
    holder = "user" if "user_id" in fields else "group"
    holder_id, project_id = fields[f"{holder}_id"], fields.get("project_id")
    path = f"projects/{project_id}" if project_id else "system"
    return {
        "role": {"id": each.role_id},
        holder: {"id": holder_id},
        "scope": {"project": {"id": project_id}} if project_id else {"system": {"all": True}},
        "links": {"assignment": f"{url}/v3/{path}/{holder}s/{holder_id}/roles/{each.role_id}"},
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
