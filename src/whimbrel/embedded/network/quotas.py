"""Quotas of projects. A limit that was not set is unlimited."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from whimbrel.embedded.network.bodies import Body, one
from whimbrel.embedded.network.request import Ask, forbidden
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


async def search(ask: Ask) -> Reply:
    """List the projects that have limits of their own."""
    _check_admin(ask, "get_quota")
    projects = await ask.store.limited_projects()
    return Reply({"quotas": [await _limits(ask, each) | {"project_id": each, "tenant_id": each} for each in projects]})


async def show(ask: Ask) -> Reply:
    """Show the quota of a project; those of others for administrators only."""
    _check_own(ask)
    return Reply({"quota": await _limits(ask, ask.path("id"))})


async def show_default(ask: Ask) -> Reply:
    _check_own(ask)
    return Reply({"quota": dict.fromkeys(QUOTA_RESOURCES, UNLIMITED)})


async def show_details(ask: Ask) -> Reply:
    _check_own(ask)
    limits, used = await _limits(ask, ask.path("id")), await ask.store.usage(ask.path("id"))
    details = {name: {"limit": limits[name], "used": used[name], "reserved": 0} for name in QUOTA_RESOURCES}
    return Reply({"quota": details})


async def update(ask: Ask) -> Reply:
    _check_admin(ask, "update_quota")
    project_id = ask.path("id")
    if len(project_id) > 255:
        raise Problem(400, "Invalid input for project_id. Reason: it is longer than 255 characters.", "InvalidInput")
    requested = await one(ask, "quota", SentQuota)
    sent = {name: value for name, value in asdict(requested).items() if name in QUOTA_RESOURCES and value is not UNSET}
    if not requested.force:
        await _check_used(ask, project_id, sent)
    await ask.store.set_quota(project_id, sent)
    return Reply({"quota": await _limits(ask, project_id)})


async def delete(ask: Ask) -> Reply:
    """Remove the limits of a project: the defaults hold."""
    _check_admin(ask, "delete_quota")
    await ask.store.set_quota(ask.path("id"), None)
    return NO_CONTENT


async def _limits(ask: Ask, project_id: str) -> dict[str, Any]:
    return dict.fromkeys(QUOTA_RESOURCES, UNLIMITED) | await ask.store.quota(project_id)


async def _check_used(ask: Ask, project_id: str, sent: dict[str, int]) -> None:
    """Raises: Problem: a limit is below what the project has."""
    used = await ask.store.usage(project_id)
    for name, limit in sent.items():
        if limit != UNLIMITED and used[name] > limit:
            raise Problem(
                400, f"Quota limit {limit} for {name} must be greater than or equal to already used {used[name]}"
            )


def _check_own(ask: Ask) -> None:
    if not (ask.is_admin or ask.path("id") == ask.principal.project_id):
        raise forbidden("rule:get_quota")


def _check_admin(ask: Ask, rule: str) -> None:
    if not ask.is_admin:
        raise forbidden(f"rule:{rule}")
