"""Quotas of projects. A limit that was not set is unlimited."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from whimbrel.embedded.network.bodies import Body, one
from whimbrel.embedded.network.request import Call, forbidden
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.embedded.network_store import QUOTA_RESOURCES

UNLIMITED = -1

Limit = Annotated[int, Meta(ge=-1, le=2**31 - 1)] | UnsetType


class SentQuota(Body, kw_only=True):
    network: Limit = UNSET
    subnet: Limit = UNSET
    port: Limit = UNSET
    router: Limit = UNSET
    floatingip: Limit = UNSET
    security_group: Limit = UNSET
    security_group_rule: Limit = UNSET
    force: bool = False
    check_limit: bool = False


async def search(call: Call) -> Reply:
    """List the projects that have limits of their own."""
    _check_admin(call, "get_quota")
    projects = await call.store.limited_projects()
    return Reply({"quotas": [await _limits(call, each) | {"project_id": each, "tenant_id": each} for each in projects]})


async def show(call: Call) -> Reply:
    """Show the quota of a project; those of others for administrators only."""
    _check_own(call)
    return Reply({"quota": await _limits(call, call.path("id"))})


async def show_default(call: Call) -> Reply:
    _check_own(call)
    return Reply({"quota": dict.fromkeys(QUOTA_RESOURCES, UNLIMITED)})


async def show_details(call: Call) -> Reply:
    _check_own(call)
    limits, used = await _limits(call, call.path("id")), await call.store.usage(call.path("id"))
    details = {name: {"limit": limits[name], "used": used[name], "reserved": 0} for name in QUOTA_RESOURCES}
    return Reply({"quota": details})


async def update(call: Call) -> Reply:
    _check_admin(call, "update_quota")
    project_id = call.path("id")
    if len(project_id) > 255:
        raise Problem(400, "Invalid input for project_id. Reason: it is longer than 255 characters.", "InvalidInput")
    requested = await one(call, "quota", SentQuota)
    sent = {name: value for name, value in asdict(requested).items() if name in QUOTA_RESOURCES and value is not UNSET}
    if not requested.force:
        await _check_used(call, project_id, sent)
    await call.store.set_quota(project_id, sent)
    return Reply({"quota": await _limits(call, project_id)})


async def delete(call: Call) -> Reply:
    """Remove the limits of a project: the defaults hold."""
    _check_admin(call, "delete_quota")
    await call.store.set_quota(call.path("id"), None)
    return NO_CONTENT


async def _limits(call: Call, project_id: str) -> dict[str, Any]:
    return dict.fromkeys(QUOTA_RESOURCES, UNLIMITED) | await call.store.quota(project_id)


async def _check_used(call: Call, project_id: str, sent: dict[str, int]) -> None:
    """Raises: Problem: a limit is below what the project has."""
    used = await call.store.usage(project_id)
    for name, limit in sent.items():
        if limit != UNLIMITED and used[name] > limit:
            raise Problem(
                400, f"Quota limit {limit} for {name} must be greater than or equal to already used {used[name]}"
            )


def _check_own(call: Call) -> None:
    if not (call.is_admin or call.path("id") == call.principal.project_id):
        raise forbidden("rule:get_quota")


def _check_admin(call: Call, rule: str) -> None:
    if not call.is_admin:
        raise forbidden(f"rule:{rule}")
