"""Quotas: the limits of a project, or of one user in it.

Source: reference of Nova 34, section 2.4.
"""

from collections.abc import Mapping
from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.schemas.quotas import CURRENT, FILES, NETWORK
from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.moves import quota_checks
from whimbrel.ports.stores.catalog import DEFAULT_QUOTA_CLASS

LONGEST_NAME = 255


async def project_in_path(call: Call) -> Mapping[str, str]:
    """Return the policy target: the project of the quota."""
    return {"project_id": call.params["project_id"]}


async def show(call: Call) -> Any:
    project, user = await _checked(call)
    return {"quota_set": {"id": project} | _shown(call, await call.cloud.quotas.shown(project, user))}


async def detail(call: Call) -> Any:
    project, user = await _checked(call)
    limits = _shown(call, await call.cloud.quotas.shown(project, user))
    used = await _used(call, project, user)
    both = {name: {"limit": limit, "in_use": used.get(name, 0), "reserved": 0} for name, limit in limits.items()}
    return {"quota_set": {"id": project} | both}


async def defaults(call: Call) -> Any:
    await call.check_project(call.params["project_id"])
    limits = await call.cloud.quotas.class_limits(DEFAULT_QUOTA_CLASS)
    return {"quota_set": {"id": call.params["project_id"]} | _shown(call, limits)}


async def update(call: Call) -> Any:
    project, user = await _checked(call)
    sent = dict(call.body["quota_set"])
    forced = truth(sent.pop("force", False))
    wanted = _numbers(sent)
    if not forced and call.cloud.quotas.are_settable:
        used = await _used(call, project, user)
        ceiling = {} if user is None else await call.cloud.quotas.limits(project)
        for name, limit in wanted.items():
            _check_range(name, limit, used.get(name, 0), ceiling.get(name, -1))
    await call.cloud.quotas.set_limits(project, wanted, user)
    return {"quota_set": _shown(call, await call.cloud.quotas.shown(project, user))}


async def delete(call: Call) -> Any:
    await call.cloud.quotas.reset(*_whose(call))


async def show_class(call: Call) -> Any:
    name = call.params["name"]
    return {"quota_class_set": {"id": name} | _shown_class(call, await call.cloud.quotas.class_limits(name))}


async def update_class(call: Call) -> Any:
    name = _name(call.params["name"])
    await call.cloud.quotas.set_class_limits(name, _numbers(call.body["quota_class_set"]))
    return {"quota_class_set": _shown_class(call, await call.cloud.quotas.class_limits(name))}


async def _checked(call: Call) -> tuple[ProjectId, UserId | None]:
    """Raises: Invalid: no such project."""
    project, user = _whose(call)
    await call.check_project(project)
    return project, user


def _whose(call: Call) -> tuple[ProjectId, UserId | None]:
    user = call.value("user_id")
    return ProjectId(_name(call.params["project_id"])), UserId(_name(user)) if user else None


def _name(text: str) -> str:
    """Raises: Invalid: the name of a project, user or class is too long."""
    if len(text) > LONGEST_NAME:
        raise Invalid(f"Nothing has a name of more than {LONGEST_NAME} characters.")
    return text


async def _used(call: Call, project: ProjectId, user: UserId | None) -> dict[str, int]:
    """Return the usage of resources that are counted here; others are counted where they are used, or not at all."""
    usage = await quota_checks.usage(call.cloud, project, user)
    groups = await call.cloud.server_groups.count(project, user)
    return {"instances": usage.instances, "cores": usage.cores, "ram": usage.ram_mib, "server_groups": groups}


def _shown(call: Call, limits: Mapping[str, int]) -> dict[str, int]:
    names = CURRENT + (FILES if call.minor < 57 else ()) + (NETWORK if call.minor < 36 else ())
    return {name: limits[name] for name in names}


def _shown_class(call: Call, limits: Mapping[str, int]) -> dict[str, int]:
    """Return the quotas of a class; below 2.50 network resources are included, server groups are not (as in Nova)."""
    shown = {name: limits[name] for name in CURRENT + (FILES if call.minor < 57 else ())}
    if call.minor < 50:
        del shown["server_groups"], shown["server_group_members"]
        shown |= {name: limits[name] for name in NETWORK}
    return shown


def _numbers(sent: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(limit) for name, limit in sent.items()}


def _check_range(name: str, limit: int, used: int, ceiling: int) -> None:
    """Raises: Invalid: the limit is below the usage, or above the project's limit for its user."""
    if 0 <= limit < used:
        raise Invalid(f"Quota limit {limit} for {name} must be greater than or equal to already used {used}.")
    if ceiling >= 0 and (limit > ceiling or limit < 0):
        raise Invalid(f"Quota limit {limit} for {name} must be less than or equal to {ceiling}.")
