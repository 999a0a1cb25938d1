"""Conditions of routers, their ports, and floating IPs, checked under locks in the caller's transaction.

Invariant: the subnets of a router do not overlap, and every associated floating IP has a router that reaches both of
its sides. Whoever changes this locks the router's row.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from itertools import product

import sqlalchemy as sa
from msgspec.structs import replace

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.network.record_types import PORT, ROUTER, SUBNET
from whimbrel.adapters.sql.tables import network as tables
from whimbrel.domain.ip_addresses import overlaps
from whimbrel.ports.embedded.network_store import (
    DHCP,
    FLOATING_IP,
    ROUTER_GATEWAY,
    ROUTER_INTERFACE,
    FixedIp,
    FloatingIp,
    Network,
    Port,
    Router,
    Subnet,
)
from whimbrel.ports.services import network_errors as errors

ports, ips, floating = tables.ports.c, tables.fixed_ips.c, tables.floating_ips.c


def is_of_router(port: Port) -> bool:
    return port.device_owner in (ROUTER_INTERFACE, ROUTER_GATEWAY)


# Ports of routers


async def lock_router(tx: Tx, port: Port) -> None:
    """Lock the router of a port, if it has one. Raises: RouterNotFound."""
    if is_of_router(port):
        await ROUTER.find(tx, port.device_id, lock=True)


async def check_subnets(tx: Tx, port: Port) -> None:
    """Check the subnets of a port that a router gets. Raises: BadRequest: the router reaches one of them already."""
    if not is_of_router(port):
        return
    reached = sa.select(ips.subnet_id).where(
        ips.port_id == ports.id,
        ports.device_id == port.device_id,
        ports.device_owner.in_((ROUTER_INTERFACE, ROUTER_GATEWAY)),
        ports.id != port.id,
    )
    own = await _subnets(tx, sorted({each.subnet_id for each in port.fixed_ips or ()}))
    others = await _subnets(tx, reached)
    if len([subnet for subnet in own if subnet.ip_version == 4]) > 1 and port.device_owner == ROUTER_INTERFACE:
        raise errors.BadRequest("Bad router request: Cannot have multiple IPv4 subnets on router port.")
    for subnet, other in product(own, others):
        if subnet.id == other.id:
            raise errors.BadRequest(f"Bad router request: Router already has a port on subnet {subnet.id}.")
        if overlaps(subnet.cidr, other.cidr):
            raise errors.BadRequest(
                f"Bad router request: Cidr {subnet.cidr} of subnet {subnet.id} overlaps with cidr {other.cidr} of"
                f" subnet {other.id}."
            )


async def _subnets(tx: Tx, ids: sa.Select[tuple[str]] | list[str]) -> list[Subnet]:
    return await SUBNET.records(tx, await tx.rows(sa.select(tables.subnets).where(tables.subnets.c.id.in_(ids))))


async def check_port_unused(tx: Tx, port: Port) -> None:
    """Raises: RouterInterfaceInUseByFloatingIP; RouterExternalGatewayInUseByFloatingIp."""
    await lock_router(tx, port)
    used = sa.select(floating.id).where(floating.router_id == port.device_id).limit(1)
    if port.device_owner == ROUTER_GATEWAY:
        if await tx.row(used.where(floating.floating_network_id == port.network_id)) is not None:
            raise errors.RouterExternalGatewayInUseByFloatingIp(
                f"Gateway cannot be updated for router {port.device_id}, since a gateway to external network"
                f" {port.network_id} is required by one or more floating IPs."
            )
    elif port.device_owner == ROUTER_INTERFACE:
        for each in port.fixed_ips or ():
            reached = sa.exists().where(
                ips.port_id == floating.fixed_port_id,
                ips.ip_address == floating.fixed_ip_address,
                ips.subnet_id == each.subnet_id,
            )
            if await tx.row(used.where(reached)) is not None:
                raise errors.RouterInterfaceInUseByFloatingIP(
                    f"Router interface for subnet {each.subnet_id} on router {port.device_id} cannot be deleted, as it"
                    " is required by one or more floating IPs."
                )


async def check_router_unused(tx: Tx, router: Router) -> None:
    """Raises: RouterInUse."""
    attached = sa.select(ports.id).where(ports.device_id == router.id, ports.device_owner == ROUTER_INTERFACE)
    if found := await tx.rows(attached.order_by(ports.id)):
        names = ", ".join(row.id for row in found)
        raise errors.RouterInUse(f"Router {router.id} has ports still attached: {names}")


async def check_still_external(tx: Tx, network: Network) -> None:
    """Raises: ExternalNetworkInUse: a router has its gateway there."""
    gateway = sa.select(ports.id).where(ports.network_id == network.id, ports.device_owner == ROUTER_GATEWAY)
    if await tx.row(gateway.limit(1)) is not None:
        raise errors.ExternalNetworkInUse(
            f"External network {network.id} cannot be updated to be made non-external, since it has existing gateway"
            " ports."
        )


async def check_gateway_unused(tx: Tx, subnet: Subnet) -> None:
    """subnet: as it was. Raises: GatewayIpInUse: a router has the gateway's address."""
    used = (
        sa.select(ports.id)
        .join(tables.fixed_ips, ips.port_id == ports.id)
        .where(
            ips.network_id == subnet.network_id,
            ips.ip_address == subnet.gateway_ip,
            ports.device_owner == ROUTER_INTERFACE,
        )
    )
    if found := await tx.row(used):
        raise errors.GatewayIpInUse(
            f"Current gateway ip {subnet.gateway_ip} already in use by port {found.id}. Unable to update."
        )


# Ports and addresses that are removed with what they belong to


async def clear_router(tx: Tx, router_id: str) -> None:
    """Remove a router's gateway, which serves no floating IP without interfaces."""
    await tx.run(sa.delete(tables.ports).where(ports.device_id == router_id, ports.device_owner == ROUTER_GATEWAY))


async def clear_network(tx: Tx, network_id: str) -> None:
    """Remove the ports that do not keep a network in use: of DHCP, and of floating IPs that are not associated."""
    idle = sa.select(floating.floating_port_id).where(floating.fixed_port_id.is_(None))
    is_idle = sa.and_(ports.device_owner == FLOATING_IP, ports.id.in_(idle))
    await tx.run(
        sa.delete(tables.ports).where(ports.network_id == network_id, sa.or_(ports.device_owner == DHCP, is_idle))
    )


async def clear_subnet(tx: Tx, subnet_id: str) -> None:
    """Remove the addresses of DHCP ports, which do not keep a subnet in use."""
    of_dhcp = sa.select(ports.id).where(ports.device_owner == DHCP)
    await tx.run(sa.delete(tables.fixed_ips).where(ips.subnet_id == subnet_id, ips.port_id.in_(of_dhcp)))


_DISASSOCIATE = (
    sa.update(tables.floating_ips)
    .where(floating.fixed_port_id == sa.bindparam("port"))
    .values(fixed_port_id=None, fixed_ip_address=None, router_id=None, revision=floating.revision + 1)
)
_DISASSOCIATE_ALL = fixed(_DISASSOCIATE)


async def disassociate(tx: Tx, port_id: str, kept: Iterable[FixedIp] | None = ()) -> None:
    """Take a port's floating IPs off, except those of addresses that it keeps."""
    addresses = sorted(each.ip_address for each in kept or ())
    statement = _DISASSOCIATE.where(floating.fixed_ip_address.not_in(addresses)) if addresses else _DISASSOCIATE_ALL
    await tx.run(statement, {"port": port_id})


# Floating IPs


async def admit_floating_ip(tx: Tx, requested: FloatingIp, before: FloatingIp | None) -> FloatingIp:
    """Return a floating IP with its address and its router.

    Raises: BadRequest; ExternalGatewayForFloatingIPNotFound; FloatingIPPortAlreadyAssociated;
    ExternalIpAddressExhausted.
    """
    if before is None:
        holder = await PORT.find(tx, requested.floating_port_id)
        own = _ipv4(holder)
        if not own:
            raise errors.ExternalIpAddressExhausted(
                f"Unable to find any IP address on external network {requested.floating_network_id}."
            )
        requested = replace(requested, floating_ip_address=own[0].ip_address)
    if requested.fixed_port_id is None:
        return replace(requested, fixed_ip_address=None, router_id=None)
    port = await PORT.find(tx, requested.fixed_port_id)
    fixed_ip = _fixed_ip(port, requested.fixed_ip_address)
    router_id = await _router(tx, requested, port, fixed_ip)
    await _check_alone(tx, requested, port, fixed_ip)
    return replace(requested, fixed_ip_address=fixed_ip.ip_address, router_id=router_id)


def _ipv4(port: Port) -> list[FixedIp]:
    return [each for each in port.fixed_ips or () if ip_address(each.ip_address).version == 4]


def _fixed_ip(port: Port, wanted: str | None) -> FixedIp:
    """Raises: BadRequest."""
    own = _ipv4(port)
    if wanted is not None:
        found = next((each for each in own if each.ip_address == wanted), None)
        if found is None:
            raise errors.BadRequest(f"Bad floatingip request: Port {port.id} does not have fixed ip {wanted}.")
        return found
    if not own:
        raise errors.BadRequest(
            f"Bad floatingip request: Cannot add floating IP to port {port.id} that has no fixed IPv4 addresses."
        )
    if len(own) > 1:
        raise errors.BadRequest(
            f"Bad floatingip request: Port {port.id} has multiple fixed IPv4 addresses.  Must provide a specific IPv4"
            " address when assigning a floating IP."
        )
    return own[0]


async def _router(tx: Tx, requested: FloatingIp, port: Port, fixed_ip: FixedIp) -> str:
    """Return the router that connects both networks, preferably the subnet's gateway, and lock it.

    Raises: ExternalGatewayForFloatingIPNotFound.
    """
    gateway = tables.ports.alias()
    connected = (
        sa.select(ports.device_id)
        .join(tables.fixed_ips, ips.port_id == ports.id)
        .join(tables.subnets, tables.subnets.c.id == ips.subnet_id)
        .join(gateway, gateway.c.device_id == ports.device_id)
        .where(
            ports.device_owner == ROUTER_INTERFACE,
            ips.subnet_id == fixed_ip.subnet_id,
            gateway.c.device_owner == ROUTER_GATEWAY,
            gateway.c.network_id == requested.floating_network_id,
        )
        .order_by(sa.case((ips.ip_address == tables.subnets.c.gateway_ip, 0), else_=1), ports.device_id)
    )
    found = await tx.row(connected)
    if found is not None:
        await ROUTER.find(tx, found.device_id, lock=True)
        found = await tx.row(connected.where(ports.device_id == found.device_id))
    if found is None:
        raise errors.ExternalGatewayForFloatingIPNotFound(
            f"External network {requested.floating_network_id} is not reachable from subnet {fixed_ip.subnet_id}. "
            f" Therefore, cannot associate Port {port.id} with a Floating IP."
        )
    router_id: str = found.device_id
    return router_id


async def _check_alone(tx: Tx, requested: FloatingIp, port: Port, fixed_ip: FixedIp) -> None:
    """Raises: FloatingIPPortAlreadyAssociated."""
    other = sa.select(floating.id).where(
        floating.fixed_port_id == port.id,
        floating.fixed_ip_address == fixed_ip.ip_address,
        floating.floating_network_id == requested.floating_network_id,
        floating.id != requested.id,
    )
    if await tx.row(other) is not None:
        raise errors.FloatingIPPortAlreadyAssociated(
            f"Cannot associate floating IP {requested.floating_ip_address} ({requested.id}) with port {port.id} using"
            f" fixed IP {fixed_ip.ip_address}, as that fixed IP already has a floating IP on external network"
            f" {requested.floating_network_id}."
        )
