"""The ports and volumes of a server, read before a host is chosen."""

from msgspec.structs import replace

from whimbrel.domain.ids import ServerId
from whimbrel.domain.ip_addresses import mac_of
from whimbrel.domain.pci import DIRECT
from whimbrel.domain.server_devices import Nic
from whimbrel.moves.facts import MovedPort, MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.network import Port


async def with_attached(facts: MoveFacts, server: ServerId, cloud: Cloud) -> MoveFacts:
    """Return the facts with the server's ports, their requests, and its volumes."""
    home = facts.source or facts.home
    if home is None:
        return await _with_requested(facts, cloud)
    record = await cloud.cell(home.cell).servers.get(server)
    ports = await _ports_now(record.id, record.nics, cloud)
    return replace(facts, ports=ports, volumes=record.volumes, zone_pin=record.spec.zone_pin)


async def _with_requested(facts: MoveFacts, cloud: Cloud) -> MoveFacts:
    """Add the existing ports of a create, and choose the MACs of the ports to make, which identify them later."""
    if not facts.requested_nics:
        return facts
    found = []
    for port in [
        await cloud.network.port(requested.port_id) for requested in facts.requested_nics if requested.port_id
    ]:
        found.append(await _moved(port.as_nic(None, tag=None, is_ours=False), port, cloud))
    macs = tuple("" if requested.port_id else mac_of(cloud.ids.uuid()) for requested in facts.requested_nics)
    return replace(facts, ports=tuple(found), macs=facts.macs or macs)


async def _ports_now(server: ServerId, nics: tuple[Nic, ...], cloud: Cloud) -> tuple[MovedPort, ...]:
    if not nics:
        return ()
    found = {port.id: port for port in await cloud.network.ports_of([server])}
    return tuple([await _moved(nic, found[nic.port_id], cloud) for nic in nics if nic.port_id in found])


async def _moved(nic: Nic, port: Port, cloud: Cloud) -> MovedPort:
    """Return a port, with the physical network that its virtual function must be on."""
    moved = MovedPort.of(nic, port)
    if port.vnic_type != DIRECT:
        return moved
    networks = await cloud.network.networks(None, [port.network_id])
    return replace(moved, physnet=next((name for one in networks for name in one.physnets), None))
