"""A server's network interfaces: its ports, as the network service has them."""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states, requested_nics
from whimbrel.domain.errors import Conflict, Invalid, NotFound
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import RequestedNic
from whimbrel.ports.services.network import Port
from whimbrel.servers.devices import interfaces, own_devices

TAGS_SHOWN = 70


def _shown(call: Call, port: Port, tags: dict[str, str | None]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "net_id": port.network_id,
        "port_id": port.id,
        "mac_addr": port.mac,
        "port_state": port.status,
        "fixed_ips": [{"subnet_id": ip.subnet_id, "ip_address": ip.address} for ip in port.addresses],
    }
    return shown | ({"tag": tags.get(port.id)} if call.minor >= TAGS_SHOWN else {})


def _tags(server: Server) -> dict[str, str | None]:
    return {nic.port_id: nic.tag for nic in server.nics}


async def index(call: Call) -> Any:
    order = [nic.port_id for nic in call.server.nics]
    ports = await own_devices.ports_of(call.server, call.cloud)
    ports.sort(key=lambda port: order.index(port.id) if port.id in order else len(order))
    return {"interfaceAttachments": [_shown(call, port, _tags(call.server)) for port in ports]}


async def show(call: Call) -> Any:
    port_id = call.params["port_id"]
    port = await call.cloud.network.port(port_id)
    if port_id not in [own.id for own in await own_devices.ports_of(call.server, call.cloud)]:
        raise NotFound(f"Instance {call.server.id} does not have a port with id {port_id}")
    return {"interfaceAttachment": _shown(call, port, _tags(call.server))}


async def create(call: Call) -> Any:
    """Attach an interface: by a port, by a network, or by the only available network."""
    sent = call.body.get("interfaceAttachment", {})
    _check_combination(sent)
    action_states.check_lock(call)
    action_states.check(call.server, "attach_interface", interfaces.STATES)
    action_states.check_placed(call.server)
    requested = await _requested(call, sent)
    if requested.port_id:
        await interfaces.check_room(call.cloud, call.server, await call.cloud.network.port(requested.port_id))
    port = await interfaces.attach(call.cloud, call.engine, call.requester, call.server, requested)
    if port is None:
        raise NotFound("The port was deleted meanwhile.")
    return {"interfaceAttachment": _shown(call, port, {port.id: requested.tag})}


async def delete(call: Call) -> None:
    action_states.check_lock(call)
    action_states.check(call.server, "detach_interface", interfaces.STATES)
    await interfaces.detach(call.cloud, call.engine, call.requester, call.server, call.params["port_id"])


def _check_combination(sent: dict[str, Any]) -> None:
    """Raises: Invalid: keys that exclude each other."""
    if sent.get("net_id") and sent.get("port_id"):
        raise Invalid("Must not input both network_id and port_id")
    if sent.get("fixed_ips") and not sent.get("net_id"):
        raise Invalid("Must input network_id when request IP address")


async def _requested(call: Call, sent: dict[str, Any]) -> RequestedNic:
    network_id, port_id, tag = sent.get("net_id"), sent.get("port_id"), sent.get("tag")
    address = sent["fixed_ips"][0]["ip_address"] if sent.get("fixed_ips") else None
    if port_id:
        return await _of_port(call, port_id, tag)
    if network_id:
        known = await call.networks(call.server.project_id, [network_id])
        if not known:
            raise NotFound(f"Network {network_id} could not be found.")
        requested_nics.check_network(call, network_id, {network_id: known[0]}, address)
        return RequestedNic(network_id=network_id, fixed_ip=address, tag=tag)
    return await _of_any(call, tag)


async def _of_port(call: Call, port_id: str, tag: str | None) -> RequestedNic:
    port = await requested_nics.own_port(call, port_id, call.server.project_id)
    if port.vnic_type != "normal":
        raise Invalid(f"Port {port_id} is of vnic type {port.vnic_type}: name it when the server is created.")
    return RequestedNic(network_id=port.network_id, port_id=port_id, tag=tag)


async def _of_any(call: Call, tag: str | None) -> RequestedNic:
    try:
        found = await requested_nics.by_default(call, call.server.project_id)
    except Conflict as several:
        raise Invalid(several.reason) from None
    if not found:
        raise Invalid(
            f"No specific network was requested and none are available for project '{call.server.project_id}'."
        )
    return RequestedNic(network_id=found[0].network_id, tag=tag)
