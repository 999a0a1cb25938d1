"""Server groups: affinity and anti-affinity policies, and their members.

A server joins a group by the hint `group` when it is created, and is a member until either is deleted.

Source: reference of Nova 34, section 2.4.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from whimbrel.api.http import paging
from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Invalid, NotFound, Unavailable
from whimbrel.domain.ids import GroupId
from whimbrel.domain.server import Server
from whimbrel.ports.stores.server_groups import ServerGroup

RULES_SINCE = 64
NO = ("false", "0", "no", "off", "n", "f")


async def group_in_path(call: Call) -> Mapping[str, str]:
    """Return the policy target: the project of the group.

    If the group does not exist, it is the requester's own; the handler then answers 404.
    """
    try:
        group = await in_path(call)
    except NotFound:
        return call.own
    return {"project_id": group.project_id, "user_id": group.user_id}


async def in_path(call: Call) -> ServerGroup:
    return await call.cloud.server_groups.get(GroupId(call.params["group_id"]))


async def index(call: Call) -> Any:
    """List the groups of the project. all_projects: those of all projects, if the policy permits; else it is
    ignored.
    """
    asked = call.value("all_projects")
    everybody = (
        asked is not None and asked.lower() not in NO and call.may("os_compute_api:os-server-groups:index:all_projects")
    )
    whose = None if everybody else call.principal.project_id
    most = paging.limit(call) or call.context.max_limit
    found = await call.cloud.server_groups.find(whose, paging.offset(call), most)
    return {"server_groups": [_shown(call, group) for group in found]}


async def show(call: Call) -> Any:
    return {"server_group": _shown(call, await in_path(call))}


async def create(call: Call) -> Any:
    requested: dict[str, Any] = call.body["server_group"]
    rules = requested.get("rules", {})
    policy = requested["policy"] if call.minor >= RULES_SINCE else requested["policies"][0]
    if rules and policy != "anti-affinity":
        raise Invalid("Only anti-affinity policy supports rules.")
    group = ServerGroup(
        id=GroupId(call.cloud.ids.uuid()),
        name=requested["name"],
        project_id=call.principal.project_id,
        user_id=call.principal.user_id,
        policy=policy,
        max_server_per_host=int(rules["max_server_per_host"]) if rules else None,
        created_at=call.cloud.clock.now(),
    )
    limits = await call.cloud.quotas.limits(group.project_id)
    await call.cloud.server_groups.create(group, limits["server_groups"])
    return {"server_group": _shown(call, group)}


async def delete(call: Call) -> Any:
    group = await in_path(call)
    await call.cloud.server_groups.delete(group.id)
    with suppress(Unavailable):  # remaining rows of a deleted group do no harm
        await call.cloud.placement.forget_group(group.id)


async def check_requested(call: Call, hints: Mapping[str, Any]) -> None:
    """Raises: Invalid: the hint names a group that is not the project's."""
    group_id = hints.get("group")
    if group_id is None:
        return
    try:
        group = await call.cloud.server_groups.get(group_id)
    except NotFound as error:
        raise Invalid(error.reason) from None
    if group.project_id != call.principal.project_id:
        raise Invalid(f"Instance group {group_id} could not be found.")


async def of_server(call: Call, server: Server) -> tuple[GroupId, ...]:
    """Return the groups of a server as it shows them. No lookup for a server that was created without a group."""
    if not server.spec.requested_group:
        return ()
    group = await call.cloud.server_groups.of_server(server.id)
    return (group.id,) if group else ()


def _shown(call: Call, group: ServerGroup) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": group.id, "name": group.name, "members": list(group.members)}
    if call.minor >= RULES_SINCE:
        most = group.max_server_per_host
        shown |= {"policy": group.policy, "rules": {} if most is None else {"max_server_per_host": most}}
    else:
        shown |= {"policies": [group.policy], "metadata": {}}
    if call.minor >= 13:
        shown |= {"project_id": group.project_id, "user_id": group.user_id}
    return shown
