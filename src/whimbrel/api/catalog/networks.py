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

_OF_ADMINISTRATORS = (
    *("created_at", "updated_at", "deleted_at", "deleted", "injected", "bridge", "vlan", "vpn_public_address"),
    *("vpn_public_port", "vpn_private_address", "dhcp_start", "project_id", "host", "bridge_interface", "multi_host"),
    *("priority", "rxtx_base", "mtu", "dhcp_server", "enable_dhcp", "share_address"),
)


def _shown(call: Call, network: NetworkInfo) -> dict[str, Any]:
    fields = _UNKNOWN + (_OF_ADMINISTRATORS if call.is_admin else ())
    return {"id": network.id, "label": network.name} | dict.fromkeys(fields)


async def index(call: Call) -> Any:
    return {"networks": [_shown(call, one) for one in await call.networks(call.principal.project_id)]}


async def show(call: Call) -> Any:
    found = await call.networks(call.principal.project_id, [call.params["network_id"]])
    if not found:
        raise NotFound("Network not found")
    return {"network": _shown(call, found[0])}
