"""Floating IPs for old clients: of the requester's project, or of a server. Pools are the external networks."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Conflict, Invalid, NotFound, Refused
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.http.problem import Problem
from whimbrel.ports.services import network_errors
from whimbrel.ports.services.network import NetworkInfo
from whimbrel.ports.services.network_proxies import FloatingIp
from whimbrel.servers import lookup
from whimbrel.servers.devices import interfaces

DEFAULT_POOL = "nova"


async def pools(call: Call) -> Any:
    return {"floating_ip_pools": [{"name": pool.name or pool.id} for pool in await _pools(call)]}


async def index(call: Call) -> Any:
    found = await call.cloud.network.floating_ips(project=call.principal.project_id)
    return {"floating_ips": await _views(call, found)}


async def show(call: Call) -> Any:
    [view] = await _views(call, [await _own(call)])
    return {"floating_ip": view}


async def create(call: Call) -> Any:
    wanted = (call.body or {}).get("pool")
    pool = await _pool(call, wanted)
    of_pool = f" in pool {wanted}" if wanted else ""
    try:
        made = await call.cloud.network.allocate_floating_ip(call.principal.project_id, pool.id)
    except network_errors.OverQuota as over:
        raise Problem(403, f"IP allocation over quota{of_pool}.") from over
    except (network_errors.IpAddressGenerationFailure, network_errors.ExternalIpAddressExhausted) as none_left:
        raise NotFound(f"No more floating IPs{of_pool or ' available'}.") from none_left
    [view] = await _views(call, [made])
    return {"floating_ip": view}


async def delete(call: Call) -> None:
    floating = await _own(call)
    await call.cloud.network.release_floating_ip(floating)
    await _refresh(call, floating)


async def add(call: Call) -> None:
    """Associate a floating IP with an address of the server: the named one, or the first of IPv4."""
    requested, server = call.body["addFloatingIp"], call.server
    port_id, fixed_address = _fixed(server, requested.get("fixed_address"), requested["address"])
    floating = await _of_address(call, requested["address"])
    try:
        await call.cloud.network.associate_floating_ip(floating, port_id, fixed_address)
    except (NotFound, Conflict, Refused) as error:
        raise Invalid(
            f"Unable to associate floating IP {requested['address']} to fixed IP {fixed_address} for instance"
            f" {server.id}. Error: {error.reason}"
        ) from error
    await interfaces.refresh(call.cloud, server)
    if floating.device_id != server.id:
        await _refresh(call, floating)  # the server that had it before


async def remove(call: Call) -> None:
    address, server = call.body["removeFloatingIp"]["address"], call.server
    floating = await _of_address(call, address)
    if not floating.port_id or floating.device_id != server.id:
        raise Conflict(f"Floating IP {address} is not associated with instance {server.id}.")
    await call.cloud.network.associate_floating_ip(floating, None, None)
    await interfaces.refresh(call.cloud, server)


async def _pools(call: Call) -> list[NetworkInfo]:
    return [each for each in await call.own_network.networks(call.principal.project_id) if each.is_external]


async def _pool(call: Call, wanted: str | None) -> NetworkInfo:
    """Return the pool of this name or id; None: the one named `nova`, or the only one. Raises: NotFound."""
    known = await _pools(call)
    found = [each for each in known if (wanted or DEFAULT_POOL) in (each.id, each.name)]
    if not found and wanted is None and len(known) == 1:
        found = known
    if len(found) != 1:
        raise NotFound("Floating IP pool not found.")
    return found[0]


async def _views(call: Call, found: Sequence[FloatingIp]) -> list[dict[str, Any]]:
    names = {pool.id: pool.name for pool in await _pools(call)} if found else {}
    return [
        {
            "id": each.id,
            "ip": each.address,
            "fixed_ip": each.fixed_address,
            "instance_id": each.device_id or None,
            "pool": names.get(each.network_id) or each.network_id,
        }
        for each in found
    ]


async def _own(call: Call) -> FloatingIp:
    """Return the floating IP in the path. Raises: NotFound."""
    wanted = call.params["id"]
    found = await call.cloud.network.floating_ips(project=call.principal.project_id, ids=[wanted])
    if not found:
        raise NotFound(f"Floating IP not found for ID {wanted}")
    return found[0]


async def _of_address(call: Call, address: str) -> FloatingIp:
    """Return the requester's floating IP of this address. Raises: NotFound."""
    whose = None if call.is_admin else call.principal.project_id
    found = await call.cloud.network.floating_ips(project=whose, address=address)
    if not found:
        raise NotFound("floating IP not found")
    return found[0]


def _fixed(server: Server, wanted: str | None, floating: str) -> tuple[str, str]:
    """Return the port and the fixed address of an association. Raises: Invalid: there is none."""
    known = [(nic.port_id, each.address) for nic in server.nics for each in nic.addresses]
    if not known:
        raise Invalid("No fixed IPs associated to instance" if server.nics else "Instance network is not ready yet")
    for port_id, address in known:
        if address == wanted or (wanted is None and ip_address(address).version == 4):
            return port_id, address
    if wanted:
        raise Invalid("Specified fixed address not assigned to instance")
    raise Invalid(
        f"Unable to associate floating IP {floating} to any fixed IPs for instance {server.id}. Instance has no fixed"
        " IPv4 addresses to associate."
    )


async def _refresh(call: Call, floating: FloatingIp) -> None:
    """Update the record of the server that had this floating IP."""
    if not floating.device_id:
        return
    try:
        server = await lookup.find(call.cloud, ServerId(floating.device_id))
    except NotFound:
        return
    await interfaces.refresh(call.cloud, server)
