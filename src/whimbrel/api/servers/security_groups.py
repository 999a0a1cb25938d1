"""A server's security groups: those of its ports. Their rules are read from the network service."""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.servers import requested_nics
from whimbrel.api.views import security_groups as views
from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.servers.devices import own_devices, security_groups


async def index(call: Call) -> Any:
    server = call.server
    ports = await own_devices.ports_of(server, call.cloud)
    used = dict.fromkeys(group for port in ports for group in port.security_groups)
    groups = await call.cloud.network.groups(ids=list(used)) if used else []
    return {"security_groups": await views.ordered(call.cloud, groups)}


async def add(call: Call) -> None:
    names = await call.cloud.network.security_groups(call.server.project_id)
    await security_groups.add(call.cloud, call.server, _wanted(call, "addSecurityGroup", names), names)


async def remove(call: Call) -> None:
    names = await call.cloud.network.security_groups(call.server.project_id)
    await security_groups.remove(call.cloud, call.server, _wanted(call, "removeSecurityGroup", names), names)


def _wanted(call: Call, action: str, names: dict[str, str]) -> str:
    try:
        return requested_nics.find_group(names, call.body[action]["name"])
    except Invalid as unknown:
        raise NotFound(unknown.reason) from None
