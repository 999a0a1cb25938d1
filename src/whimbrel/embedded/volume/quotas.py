"""Quotas of projects, and their usage."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from whimbrel.embedded.volume.fields import flag, wrapped
from whimbrel.embedded.volume.request import Call
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.volume_store import DEFAULT_CLASS

NONE_HERE = {"backups": 0, "backup_gigabytes": 0, "groups": 0}
"""The limits of what Cinder has and this service has not. They are stored, so that a client reads what it has set."""

Limit = Annotated[int, Meta(ge=-1, le=2**31 - 1)]


async def show(call: Call) -> Reply:
    project = _project(call)
    limits = await _limits(call, project)
    shown: dict[str, Any] = {"id": project, **limits}
    if flag(call.request.query_params.get("usage", "false"), "usage"):
        used = msgspec.structs.asdict(await call.store.usage(project))
        shown |= {name: {"limit": limit, "in_use": used.get(name, 0), "reserved": 0} for name, limit in limits.items()}
    return Reply({"quota_set": shown})


async def show_defaults(call: Call) -> Reply:
    return Reply({"quota_set": {"id": _project(call), **await _of_class(call, DEFAULT_CLASS)}})


async def update(call: Call) -> Reply:
    """Set the limits of a project."""
    project = call.path("target_id")
    if len(project) > 255:
        raise Problem(400, "A project's id has at most 255 characters.")
    await call.store.set_limits(project, await _sent(call, "quota_set", "tenant_id", "force"))
    return Reply({"quota_set": await _limits(call, project)})


async def _sent(call: Call, key: str, *ignored: str) -> dict[str, int]:
    """Return the limits in the body. Those of single volume types are refused, not ignored. Raises: Problem."""
    sent = await wrapped(call, key, dict[str, Any])
    for name in ignored:
        sent.pop(name, None)
    if unknown := sorted(set(sent) - set(call.service.limits) - set(NONE_HERE)):
        raise Problem(400, f"Bad key(s) in quota set: {', '.join(unknown)[:200]}.")
    try:
        return {name: msgspec.convert(value, Limit, strict=False) for name, value in sent.items()}
    except msgspec.ValidationError:
        raise Problem(400, "A limit is a whole number from -1, which means none, to 2147483647.") from None


async def reset(call: Call) -> Reply:
    await call.store.reset_limits(call.path("target_id"))
    return Reply(status=200)


async def show_class(call: Call) -> Reply:
    """Show the limits of a class. "default" is that of all projects, and no other one has any effect, as in Cinder."""
    name = call.path("class_name")
    return Reply({"quota_class_set": {"id": name, **await _of_class(call, name)}})


async def update_class(call: Call) -> Reply:
    name = call.path("class_name")
    if len(name) > 255:
        raise Problem(400, "The name of a class has at most 255 characters.")
    await call.store.set_class_limits(name, await _sent(call, "quota_class_set"))
    return Reply({"quota_class_set": await _of_class(call, name)})  # without the id, as in Cinder


async def _of_class(call: Call, name: str) -> dict[str, int]:
    defaults = {**call.service.limits, **NONE_HERE, **await call.store.class_limits(DEFAULT_CLASS)}
    return defaults if name == DEFAULT_CLASS else {**defaults, **await call.store.class_limits(name)}


async def show_absolute(call: Call) -> Reply:
    """Show the limits of the requester's own project."""
    project = call.project_id
    if call.is_admin:
        query = call.request.query_params
        project = query.get("project_id") or query.get("tenant_id") or project
    limits, used = await _limits(call, project), await call.store.usage(project)
    absolute = {
        "maxTotalVolumes": limits["volumes"],
        "maxTotalSnapshots": limits["snapshots"],
        "maxTotalVolumeGigabytes": limits["gigabytes"],
        "totalVolumesUsed": used.volumes,
        "totalSnapshotsUsed": used.snapshots,
        "totalGigabytesUsed": used.gigabytes,
        "maxTotalBackups": limits["backups"],
        "maxTotalBackupGigabytes": limits["backup_gigabytes"],
        "totalBackupsUsed": 0,
        "totalBackupGigabytesUsed": 0,
    }
    return Reply({"limits": {"rate": [], "absolute": absolute}})


def _project(call: Call) -> str:
    """Raises: Problem: the project is not the requester's."""
    project = call.path("target_id")
    if not call.sees(project):
        raise Problem(403, "Policy does not allow other projects' quotas to be shown.")
    return project


async def _limits(call: Call, project: str) -> dict[str, int]:
    return {**call.service.limits, **NONE_HERE, **await call.store.limits(project)}
