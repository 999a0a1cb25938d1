"""Allocates addresses of ports, in the caller's transaction.

Invariant: the network's row is locked before its addresses are read: concurrent requests never get the same one.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.network.record_types import SUBNET
from whimbrel.adapters.sql.tables.network import fixed_ips, ports, subnets
from whimbrel.domain.ip_addresses import first_free, from_mac, is_inside
from whimbrel.ports.embedded.network_store import ROUTER_GATEWAY, ROUTER_INTERFACE, FixedIp, Port, Subnet
from whimbrel.ports.services.network_errors import (
    InvalidInput,
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
    MacAddressInUse,
)

_SUBNETS = sa.select(subnets).where(subnets.c.network_id == sa.bindparam("network")).order_by(subnets.c.created_at)
_OTHERS = (fixed_ips.c.network_id == sa.bindparam("network"), fixed_ips.c.port_id != sa.bindparam("but"))
_TAKEN = fixed(sa.select(fixed_ips.c.ip_address).where(*_OTHERS))
_MAC_TAKEN = fixed(
    sa.select(ports.c.id).where(
        ports.c.network_id == sa.bindparam("network"),
        ports.c.mac_address == sa.bindparam("mac"),
        ports.c.id != sa.bindparam("but"),
    )
)


async def check_mac(tx: Tx, port: Port) -> None:
    """Raises: MacAddressInUse."""
    where = {"network": port.network_id, "mac": port.mac_address, "but": port.id}
    if await tx.row(_MAC_TAKEN, where) is not None:
        raise MacAddressInUse(
            f"Unable to complete operation for network {port.network_id}. The mac address {port.mac_address} is in use."
        )


async def fill_in(tx: Tx, port: Port, before: Port | None) -> tuple[FixedIp, ...]:
    """Return the addresses of a port: those that it requests, completed by free ones.

    Addresses that hosts make from their MACs follow the MAC.

    Raises: InvalidInput; IpAddressAlreadyAllocated; IpAddressGenerationFailure.
    """
    known = await SUBNET.records(tx, await tx.rows(_SUBNETS, {"network": port.network_id}))
    wanted = _usual(known) if port.fixed_ips is None else [_named(port, each, known, before) for each in port.fixed_ips]
    if not wanted:
        return ()
    rows: Sequence[Any] = await tx.rows(_TAKEN, {"network": port.network_id, "but": port.id})
    taken = {row.ip_address for row in rows}
    for _, address in wanted:
        if address in taken:
            raise IpAddressAlreadyAllocated(f"IP address {address} already allocated in network {port.network_id}.")
    chosen = {address for _, address in wanted if address}
    if len(chosen) < sum(bool(address) for _, address in wanted):
        raise InvalidInput("Invalid input for operation: a port has an address once.")
    found = []
    for choices, named in wanted:
        subnet_id, address = (choices[0].id, named) if named else _chosen(port, choices, taken | chosen)
        chosen.add(address)
        found.append(FixedIp(subnet_id, address))
    return tuple(found)


Wanted = tuple[list[Subnet], str]
"""Subnets to choose from, and the requested address, or ""."""


def _usual(known: Sequence[Subnet]) -> list[Wanted]:
    """Return one choice per IP version of the network, and every subnet in which hosts make their addresses."""
    chosen = [subnet for subnet in known if not subnet.makes_from_mac]
    by_version = [[subnet for subnet in chosen if subnet.ip_version == version] for version in (4, 6)]
    made = [[subnet] for subnet in known if subnet.makes_from_mac]
    return [(choices, "") for choices in (*by_version, *made) if choices]


def _named(port: Port, asked: FixedIp, known: Sequence[Subnet], before: Port | None) -> Wanted:
    of_network = [subnet for subnet in known if asked.subnet_id in ("", subnet.id)]
    if not of_network:
        raise InvalidInput(
            f"Invalid input for operation: Failed to create port on network {port.network_id}, because fixed_ips"
            f" included invalid subnet {asked.subnet_id or asked.ip_address}."
        )
    if not asked.ip_address:
        return of_network, ""
    inside = [subnet for subnet in of_network if is_inside(asked.ip_address, subnet.cidr)]
    if not inside:
        raise InvalidInput(
            f"Invalid input for operation: IP address {asked.ip_address} is not a valid IP for the specified subnet."
        )
    if inside[0].makes_from_mac and port.device_owner not in (ROUTER_INTERFACE, ROUTER_GATEWAY):
        return inside, _made(port, asked.ip_address, inside[0], before)
    return inside, asked.ip_address


def _made(port: Port, address: str, subnet: Subnet, before: Port | None) -> str:
    """Return the address of a port that may have this one. Raises: InvalidInput: the host does not make it."""
    if before and address == from_mac(subnet.cidr, before.mac_address):
        return from_mac(subnet.cidr, port.mac_address)
    had = before.fixed_ips or () if before else ()  # as an older release has permitted
    if address != from_mac(subnet.cidr, port.mac_address) and address not in [each.ip_address for each in had]:
        raise InvalidInput(
            f"Invalid input for operation: IPv6 address {address} cannot be directly assigned to a port on subnet"
            f" {subnet.id} as the subnet is configured for automatic addresses."
        )
    return address


def _chosen(port: Port, choices: Sequence[Subnet], taken: set[str]) -> tuple[str, str]:
    for subnet in choices:
        address = from_mac(subnet.cidr, port.mac_address) if subnet.makes_from_mac else first_free(subnet.pools, taken)
        if address and address not in taken:
            return subnet.id, address
    raise IpAddressGenerationFailure(f"No more IP addresses available on network {port.network_id}.")
