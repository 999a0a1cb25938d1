"""Interfaces of routers: ports on subnets, added and removed by subnet or by port."""

from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from msgspec.structs import replace

from whimbrel.embedded.network import own_ports, vifs
from whimbrel.embedded.network.bodies import Body, Uuid, converted
from whimbrel.embedded.network.request import Call
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.network_store import (
    ROUTER_INTERFACE,
    Changed,
    FixedIp,
    Port,
    Query,
    Removed,
    Router,
    Subnet,
    Write,
)
from whimbrel.ports.services import network_errors as errors


class SentInterface(Body, kw_only=True):
    subnet_id: Uuid | None = None
    port_id: Uuid | None = None


async def add(call: Call) -> Reply:
    requested = await _requested(call)
    if requested.port_id and requested.subnet_id:
        raise _bad("Cannot specify both subnet-id and port-id")
    router = await call.owned(Router, call.path("id"))
    if requested.port_id:
        port, subnets = await _take_port(call, router, requested.port_id)
    else:
        assert requested.subnet_id
        port, subnets = await _on_subnet(call, router, await call.seen(Subnet, requested.subnet_id))
    return _answer(router, port, subnets)


async def remove(call: Call) -> Reply:
    requested = await _requested(call)
    router = await call.owned(Router, call.path("id"))
    interfaces = await _interfaces(call, router)
    if requested.port_id:
        port = next((each for each in interfaces if each.id == requested.port_id), None)
        if port is None:
            raise errors.RouterInterfaceNotFound(
                f"Router {router.id} does not have an interface with id {requested.port_id}"
            )
        if requested.subnet_id and requested.subnet_id not in _subnet_ids(port):
            raise errors.SubnetMismatchForPort(
                f"Subnet on port {port.id} does not match the requested subnet {requested.subnet_id}."
            )
        gone = _subnet_ids(port)
    else:
        subnet = await call.seen(Subnet, requested.subnet_id or "")
        port = next((each for each in interfaces if subnet.id in _subnet_ids(each)), None)
        if port is None:
            raise errors.RouterInterfaceNotFoundForSubnet(f"Router {router.id} has no interface on subnet {subnet.id}")
        gone = [subnet.id]
    subnets = await _subnets(call, gone)
    _check_routes(router, subnets)
    await call.store.write([_without(port, gone)])
    return _answer(router, port, subnets)


async def _requested(call: Call) -> SentInterface:
    requested = converted(await call.body(dict[str, Any]), SentInterface)
    if not (requested.subnet_id or requested.port_id):
        raise _bad("Either subnet_id or port_id must be specified")
    return requested


def _bad(reason: str) -> errors.BadRequest:
    return errors.BadRequest(f"Bad router request: {reason}.")


async def _interfaces(call: Call, router: Router) -> list[Port]:
    where = {"device_id": [router.id], "device_owner": [ROUTER_INTERFACE]}
    return await call.store.search(Port, Query(where=where))


def _subnet_ids(port: Port) -> list[str]:
    return [each.subnet_id for each in port.fixed_ips or ()]


async def _subnets(call: Call, ids: Sequence[str]) -> list[Subnet]:
    found = await call.store.search(Subnet, Query(where={"id": list(ids)}))
    return sorted(found, key=lambda subnet: ids.index(subnet.id))


async def _take_port(call: Call, router: Router, port_id: str) -> tuple[Port, list[Subnet]]:
    """Make a free port an interface of the router. Raises: PortInUse; BadRequest; ...NotFound."""

    async def edit(port: Port) -> Port:
        if port.device_id:
            raise errors.PortInUse(
                f"Unable to complete operation on port {port.id} for network {port.network_id}. Port already has an"
                f" attached device {port.device_id}."
            )
        if not port.fixed_ips:
            raise _bad("Router port must have at least one fixed IP")
        _check_modes(await _subnets(call, _subnet_ids(port)))
        return vifs.settled(replace(port, device_id=router.id, device_owner=ROUTER_INTERFACE))

    _, port = await call.changed(Port, port_id, edit)
    return port, await _subnets(call, _subnet_ids(port))


async def _on_subnet(call: Call, router: Router, subnet: Subnet) -> tuple[Port, list[Subnet]]:
    """Make a port with the address of the subnet's gateway. Raises: BadRequest; IpAddressAlreadyAllocated."""
    if not subnet.gateway_ip:
        raise _bad("Subnet for router interface must have a gateway IP")
    if not call.is_admin and subnet.project_id != call.principal.project_id:
        raise _bad(
            f"Cannot add interface to router because subnet {subnet.id} is not owned by project making the request"
        )
    _check_modes([subnet])
    address = FixedIp(subnet.id, subnet.gateway_ip)
    extended = await _with_version_6(call, router, subnet) if subnet.ip_version == 6 else None
    if extended:

        async def extend(port: Port) -> Port:
            return replace(port, fixed_ips=(*(port.fixed_ips or ()), address))

        return (await call.changed(Port, extended.id, extend))[1], [subnet]
    project = router.project_id
    [port] = await own_ports.write(
        call,
        lambda: [
            own_ports.new(
                call, subnet.network_id, router.id, ROUTER_INTERFACE, project_id=project, fixed_ips=(address,)
            )
        ],
    )
    return port, [subnet]


async def _with_version_6(call: Call, router: Router, subnet: Subnet) -> Port | None:
    """Return the router's interface with IPv6 addresses on the network: it gets the new address."""
    for port in await _interfaces(call, router):
        addresses = [ip_address(each.ip_address) for each in port.fixed_ips or ()]
        if port.network_id == subnet.network_id and any(address.version == 6 for address in addresses):
            return port
    return None


def _without(port: Port, subnets: Sequence[str]) -> Write:
    left = tuple(each for each in port.fixed_ips or () if each.subnet_id not in subnets)
    return Changed(port, replace(port, fixed_ips=left)) if left else Removed(Port, port.id)


def _check_modes(subnets: Sequence[Subnet]) -> None:
    """Raises: BadRequest: another router than this one announces the subnet."""
    for subnet in subnets:
        if subnet.ip_version == 6 and subnet.ipv6_address_mode and not subnet.ipv6_ra_mode:
            raise _bad(
                f"IPv6 subnet {subnet.id} configured to receive RAs from an external router cannot be added to Neutron"
                " Router"
            )


def _check_routes(router: Router, subnets: Sequence[Subnet]) -> None:
    for subnet in subnets:
        if any(ip_address(route["nexthop"]) in ip_network(subnet.cidr) for route in router.routes):
            raise errors.RouterInterfaceInUseByRoute(
                f"Router interface for subnet {subnet.id} on router {router.id} cannot be deleted, as it is required by"
                " one or more routes."
            )


def _answer(router: Router, port: Port, subnets: Sequence[Subnet]) -> Reply:
    return Reply(
        {
            "id": router.id,
            "project_id": port.project_id,
            "tenant_id": port.project_id,
            "port_id": port.id,
            "network_id": port.network_id,
            "subnet_id": subnets[-1].id,
            "subnet_ids": [subnet.id for subnet in subnets],
        }
    )
