"""Actions that add an address to a server's port, and remove one. The record follows immediately."""

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states
from whimbrel.domain.errors import Invalid, NotFound, Refused
from whimbrel.domain.server_devices import FixedIp
from whimbrel.servers.devices import interfaces, own_devices


async def add(call: Call) -> None:
    """Add an address of the first subnet of a network that has a free one, to the server's port there."""
    action_states.check_lock(call)
    server, network_id = call.server, str(call.body["addFixedIp"]["networkId"])
    ports = [port for port in await own_devices.ports_of(server, call.cloud) if port.network_id == network_id]
    found = await call.cloud.network.networks(None, [network_id]) if ports else []
    if not found:
        raise NotFound(f"Network could not be found for instance {server.id}.")
    why = "it has no subnet"
    for subnet_id in found[0].subnets:
        try:
            await call.cloud.network.set_fixed_ips(ports[0], (*ports[0].addresses, FixedIp("", subnet_id)))
        except Refused as refused:
            why = refused.reason
            continue
        await interfaces.refresh(call.cloud, server)
        return
    raise Invalid(f"No fixed IP addresses available for network {network_id}: {why}")


async def remove(call: Call) -> None:
    action_states.check_lock(call)
    server, address = call.server, call.body["removeFixedIp"]["address"]
    for port in await own_devices.ports_of(server, call.cloud):
        kept = tuple(each for each in port.addresses if each.address != address)
        if len(kept) < len(port.addresses):
            await call.cloud.network.set_fixed_ips(port, kept)
            await interfaces.refresh(call.cloud, server)
            return
    raise Invalid(f"Instance {server.id} doesn't have fixed IP '{address}'.")


async def inject(call: Call) -> None:
    """Accept the request: guests learn their addresses without it, so there is nothing to do."""
    action_states.check_lock(call)
