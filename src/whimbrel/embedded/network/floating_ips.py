"""Floating IPs: addresses of external networks, which routers translate to addresses of ports.

Invariant: a floating IP and the port that holds its address are made and deleted in one transaction.
"""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from whimbrel.embedded.network import own_ports
from whimbrel.embedded.network.bodies import Body, New, Text, address, given, new_fields, one
from whimbrel.embedded.network.lists import Filter, Resource
from whimbrel.embedded.network.request import Call
from whimbrel.embedded.network.views import common
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.embedded.network_store import (
    DHCP,
    FLOATING_IP,
    FixedIp,
    FloatingIp,
    Network,
    Port,
    Query,
    Removed,
    Subnet,
    Write,
)
from whimbrel.ports.services import network_errors as errors
from whimbrel.ports.services.server_events import ServerEvent

FILTERS = ("floating_network_id", "floating_ip_address", "fixed_ip_address", "router_id", "status")
"""Fields that are shown as they are, and by which lists are narrowed."""


class NewFloatingIp(New, kw_only=True):
    floating_network_id: Text
    floating_ip_address: Text | None = None
    subnet_id: Text | None = None
    port_id: Text | None = None
    fixed_ip_address: Text | None = None


class ChangedFloatingIp(Body, kw_only=True):
    description: Text | UnsetType = UNSET
    port_id: Text | UnsetType | None = UNSET
    fixed_ip_address: Text | None = None


async def views(call: Call, records: Sequence[FloatingIp]) -> list[dict[str, Any]]:
    ids = sorted({record.fixed_port_id for record in records if record.fixed_port_id})
    found = await call.store.search(Port, Query(where={"id": ids})) if ids else []
    ports = {port.id: port for port in found}
    return [_view(record, ports.get(record.fixed_port_id or "")) for record in records]


def _view(record: FloatingIp, port: Port | None) -> dict[str, Any]:
    view = common(record, *FILTERS)
    del view["name"]
    return {**view, "port_id": record.fixed_port_id, "port_details": port and _details(port)}


def _details(port: Port) -> dict[str, Any]:
    names = ("name", "network_id", "mac_address", "admin_state_up", "status", "device_id", "device_owner")
    return {name: getattr(port, name) for name in names}


FLOATING_IPS = Resource(
    name="floatingip",
    plural="floatingips",
    kind=FloatingIp,
    views=views,
    filters={
        **{name: Filter(field=name) for name in FILTERS},
        "port_id": Filter(field="fixed_port_id"),
    },
)


async def create(call: Call) -> Reply:
    requested = await one(call, "floatingip", NewFloatingIp)
    network = await _external_network(call, requested.floating_network_id)
    if requested.fixed_ip_address and not requested.port_id:
        raise _bad("fixed_ip_address cannot be specified without a port_id")
    await _check_version(call, network)
    fields = {**new_fields(call, requested), **given(requested, "description")}
    fixed_ip = await _fixed_ip(call, fields["project_id"], requested.port_id, requested.fixed_ip_address)
    wanted = FixedIp(requested.subnet_id or "", _ipv4(requested.floating_ip_address) or "")
    fixed_ips = None if wanted == FixedIp() else (wanted,)

    def writes() -> list[Write]:
        holder = own_ports.new(call, network.id, fields["id"], FLOATING_IP, fixed_ips=fixed_ips)
        made = FloatingIp(**fields, floating_network_id=network.id, floating_port_id=holder.id, **fixed_ip)
        return [holder, made]

    _, made = await own_ports.write(call, writes)
    await _notify(call, made)
    return await FLOATING_IPS.answer(call, [made], status=201)


async def update(call: Call) -> Reply:
    requested = await one(call, "floatingip", ChangedFloatingIp)

    async def edit(before: FloatingIp) -> FloatingIp:
        now = replace(before, **given(requested, "description"))
        port_id = before.fixed_port_id if requested.port_id is UNSET else requested.port_id or None
        if requested.fixed_ip_address and not port_id:
            raise _bad("fixed_ip_address cannot be specified without a port_id")
        if requested.port_id is UNSET and not requested.fixed_ip_address:
            return now
        return replace(now, **await _fixed_ip(call, before.project_id, port_id, requested.fixed_ip_address))

    before, now = await call.changed(FloatingIp, call.path("id"), edit)
    await _notify(call, before, now)
    return await FLOATING_IPS.answer(call, [now])


async def delete(call: Call) -> Reply:
    record = await call.owned(FloatingIp, call.path("id"))
    await call.store.write([Removed(FloatingIp, record.id), Removed(Port, record.floating_port_id)])
    await _notify(call, record)
    return NO_CONTENT


def _bad(reason: str) -> errors.BadRequest:
    return errors.BadRequest(f"Bad floatingip request: {reason}.")


async def _external_network(call: Call, network_id: str) -> Network:
    network = await call.seen(Network, network_id)
    if not network.external:
        raise _bad(f"Network {network.id} is not a valid external network")
    return network


async def _check_version(call: Call, network: Network) -> None:
    """Raises: BadRequest: the network has no subnet of IPv4."""
    subnets = await call.store.search(Subnet, Query(where={"network_id": [network.id]}))
    if not any(subnet.ip_version == 4 for subnet in subnets):
        raise _bad(f"Network {network.id} does not contain any IPv4 subnet")


def _ipv4(sent: str | None) -> str | None:
    """Raises: InvalidInput; BadRequest."""
    if not sent:
        return None
    parsed = address(sent, "fixed_ip_address")
    if ip_address(parsed).version != 4:
        raise _bad(f"Cannot process floating IP association with {parsed}, since that is not an IPv4 address")
    return parsed


async def _fixed_ip(call: Call, project_id: str, port_id: str | None, sent: str | None) -> dict[str, Any]:
    """Return the fields of an association with a port; None: of no association. Raises: BadRequest; PortNotFound."""
    if not port_id:
        return {"fixed_port_id": None, "fixed_ip_address": None}
    port = await call.seen(Port, port_id)
    if port.project_id != project_id and not call.is_admin:
        raise _bad(
            f"Cannot process floating IP association with Port {port.id}, since that port is owned by a different"
            " project"
        )
    if port.device_owner == DHCP:
        raise _bad(f"Port {port.id} is unable to be assigned a floating IP")
    return {"fixed_port_id": port.id, "fixed_ip_address": _ipv4(sent)}


async def _notify(call: Call, *records: FloatingIp) -> None:
    """Send an event for each server with one of the fixed addresses."""
    ids = sorted({record.fixed_port_id for record in records if record.fixed_port_id})
    ports = await call.store.search(Port, Query(where={"id": ids})) if ids else []
    call.context.events.tell(
        [
            ServerEvent(name="network-changed", server_id=port.device_id, tag=port.id)
            for port in ports
            if port.is_of_server and port.device_id
        ]
    )
