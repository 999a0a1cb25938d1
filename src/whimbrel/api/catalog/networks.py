"""Networks for old clients: those of the network service that the requester may use."""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import NotFound
from whimbrel.ports.services.network import NetworkInfo

_UNKNOWN = (
    *("cidr", "netmask", "gateway", "broadcast", "dns1", "dns2"),
    *("cidr_v6", "gateway_v6", "netmask_v6"),
)
"""Fields that this list had for nova-network."""


def _shown(network: NetworkInfo) -> dict[str, Any]:
    return {"id": network.id, "label": network.name} | dict.fromkeys(_UNKNOWN)


async def index(call: Call) -> Any:
    return {"networks": [_shown(one) for one in await call.networks(call.principal.project_id)]}


async def show(call: Call) -> Any:
    found = await call.networks(call.principal.project_id, [call.params["network_id"]])
    if not found:
        raise NotFound("Network not found")
    return {"network": _shown(found[0])}
