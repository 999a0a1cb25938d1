"""Reads the metadata of a guest that is not in its server's record."""

from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import Nic
from whimbrel.guest_data.described_guest import DescribedGuest, GuestNetwork
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.zones import name_of


async def describe(
    cloud: Cloud, server: Server, *, with_networks: bool = True, with_vendor_data: bool = True
) -> DescribedGuest:
    """Return a server as its guest sees it. Raises: Unavailable; Refused: by the network service.

    with_vendor_data: the operator's services are asked about it.
    """
    zone = await name_of(cloud.zones, server.zone or cloud.rules.default_availability_zone)
    networks = await _networks(cloud, server) if with_networks and server.nics else ()
    dynamic = await cloud.vendor_data.of_server(server) if with_vendor_data else {}
    return DescribedGuest(
        server=server, zone=zone, rules=cloud.rules.guests, networks=networks, dynamic_vendor_data=dynamic
    )


async def _networks(cloud: Cloud, server: Server) -> tuple[GuestNetwork, ...]:
    ids = sorted({nic.network_id for nic in server.nics})
    networks = {network.id: network for network in await cloud.network.networks(None, ids)}
    subnets = {subnet.id: subnet for subnet in await cloud.network.subnets(_subnets_of(server.nics))}
    return tuple(
        GuestNetwork(
            nic=nic,
            network=networks.get(nic.network_id),
            subnets=tuple(subnets[one.subnet_id] for one in nic.addresses if one.subnet_id in subnets),
        )
        for nic in server.nics
    )


def _subnets_of(nics: tuple[Nic, ...]) -> frozenset[str]:
    return frozenset(fixed.subnet_id for nic in nics for fixed in nic.addresses)
