"""The server's ports: bound inactively at the target first, activated there at the hand-over, and back in reverse.

A port that its owner deletes or takes away meanwhile is left out: there is nothing of it to move.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.domain.pci import DIRECT
from whimbrel.domain.run import Run
from whimbrel.domain.server_devices import GuestNic
from whimbrel.moves.facts import Location, Move, MovedPort, MoveFacts, changes_host, source_of, target_of
from whimbrel.moves.steps import pci_devices
from whimbrel.moves.steps.lease_check import check_in_hand
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.network import NetworkInfo, NewPort, Port, allocation, own_ports
from whimbrel.ports.stores.zones import name_of

ALLOCATION = "allocation"
HANDED = (ALLOCATION, "pci_slot", "pci_vendor_info", "physical_network")
"""The keys of a binding's profile that say by which providers and which device of the host a port is served."""


# Reading


async def guest_nics(move: Move, location: Location, cloud: Cloud) -> tuple[GuestNic, ...]:
    """Give the nics as the host of a place is to plug them: of the ports that are bound there now."""
    if not _ports(move):
        return ()
    seen = await cloud.network.ports_of([ServerId(move.subject)], with_requests=False)
    bound = {port.id: port for port in seen}
    devices = (
        await pci_devices.held(move, location, cloud) if any(p.nic.vnic_type == DIRECT for p in _ports(move)) else {}
    )
    nics = []
    for moved_port in _ports(move):
        port = bound.get(moved_port.nic.port_id)
        if port is None:
            continue  # its owner has deleted it
        if port.host != location.host:
            raise Unavailable(f"port {port.id} is not bound to {location.host} yet")
        address = next((one.address for one in devices.get(port.id, [])), None)
        nics.append(
            GuestNic(
                port_id=port.id,
                mac=port.mac,
                vif_type=port.vif_type,
                vif_details=port.vif_details,
                network_id=port.network_id,
                pci_address=address,
            )
        )
    return tuple(nics)


# A move


async def bind_target(move: Move, cloud: Cloud) -> None:
    """Have each port bound at the target too, not active there yet. A later move may have bound it there by now."""
    target = target_of(move)
    profiles = [{**port.profile, **await _handed(move, port, target, cloud)} for port in _ports(move)]
    await check_in_hand(move, cloud)
    for port, profile in zip(_ports(move), profiles, strict=True):
        port_id = port.nic.port_id
        call = cloud.network.create_binding(port_id, target.host, port.nic.vnic_type, profile)
        await _unless_gone(move, cloud, port_id, call)


async def unbind_target(move: Move, cloud: Cloud) -> None:
    await check_in_hand(move, cloud)
    await return_ports(move, cloud)
    await cloud.network.delete_bindings([port.nic.port_id for port in _ports(move)], target_of(move).host)


async def leave_ports(move: Move, cloud: Cloud) -> None:
    """Leave the ports at the source: `activate_target` hands them over. There is only something to undo."""


async def return_ports(move: Move, cloud: Cloud) -> None:
    """Ensure that no port is active at the target: an activation that was undone may arrive even after that."""
    ours = {port.nic.port_id for port in _ports(move)}
    seen = await cloud.network.ports_of([ServerId(move.subject)], with_requests=False)
    if any(port.id in ours and port.host == target_of(move).host for port in seen):
        await activate_source(move, cloud)


async def activate_target(move: Move, cloud: Cloud) -> None:
    """Hand the ports over to the target. On one host only what serves them may be another."""
    await check_in_hand(move, cloud)
    target = target_of(move)
    for port in _ports(move):
        await _activate(move, port, target, await _handed(move, port, target, cloud), cloud)


async def activate_source(move: Move, cloud: Cloud) -> None:
    await check_in_hand(move, cloud)
    for port in _ports(move):
        await _activate(move, port, source_of(move), {name: port.profile.get(name) for name in HANDED}, cloud)


async def _activate(move: Move, port: MovedPort, location: Location, profile: Mapping[str, Any], cloud: Cloud) -> None:
    port_id, network = port.nic.port_id, cloud.network
    if not changes_host(move.facts):
        if port.requests or port.nic.vnic_type == DIRECT:
            await _unless_gone(move, cloud, port_id, _bind_again(move, port_id, location, profile, cloud))
        return
    is_back = location == source_of(move)
    call = _serve_again(move, port, cloud) if is_back else network.activate_binding(port_id, location.host)
    await _unless_gone(move, cloud, port_id, call)
    if source_of(move).zone != target_of(move).zone:
        await _unless_gone(move, cloud, port_id, network.set_owner(port_id, await device_owner(location, cloud)))


async def _serve_again(move: Move, port: MovedPort, cloud: Cloud) -> None:
    """Have the source serve a port, bound anew where an unbinding of an earlier move came late and took its binding.

    Who sleeps in between binds at most, and activates nothing.
    """
    network, port_id, host = cloud.network, port.nic.port_id, source_of(move).host
    try:
        await network.activate_binding(port_id, host)
    except NotFound:
        if (await network.port(port_id)).device_id == move.subject:
            await check_in_hand(move, cloud)
            await network.create_binding(port_id, host, port.nic.vnic_type, dict(port.profile))
            await check_in_hand(move, cloud)
            await network.activate_binding(port_id, host)


async def _bind_again(move: Move, port_id: str, location: Location, profile: Mapping[str, Any], cloud: Cloud) -> None:
    await _bind(move, await cloud.network.port(port_id), location, profile, cloud)


async def _bind(move: Move, port: Port, location: Location, profile: Mapping[str, Any], cloud: Cloud) -> None:
    """Bind a port as it was seen before we looked whether the run is ours: who sleeps in between finds it changed."""
    await check_in_hand(move, cloud)
    await cloud.network.bind(port, location.host, profile, await device_owner(location, cloud))


async def unbind_source(move: Move, cloud: Cloud) -> None:
    """Have no port bound at the source. What an earlier move asked there on its way back may arrive even now."""
    await check_in_hand(move, cloud)
    ports = [port.nic.port_id for port in _ports(move)]
    try:
        await cloud.network.delete_bindings(ports, source_of(move).host)
    except Refused:  # they are the active ones
        await activate_target(move, cloud)
        await cloud.network.delete_bindings(ports, source_of(move).host)


# A create


async def make_ports(move: Move, cloud: Cloud) -> None:
    """Make the ports that were requested, take those that are there, and bind them all to the host."""
    facts = move.facts
    target, server = target_of(move), ServerId(move.subject)
    owner = await device_owner(target, cloud)
    for requested, mac in zip(facts.requested_nics, facts.macs, strict=True):
        if requested.port_id:
            port = await cloud.network.take_port(requested.port_id, server, owner)
        else:
            assert requested.network_id, "checked at the door"
            port = await cloud.network.create_port(
                NewPort(
                    network_id=requested.network_id,
                    project_id=facts.owner.project,
                    server=server,
                    device_owner=owner,
                    mac=mac,
                    fixed_ip=requested.fixed_ip,
                    security_groups=facts.security_groups,
                )
            )
        one = MovedPort.of(port.as_nic(None, tag=None, is_ours=not requested.port_id), port)
        await _bind(move, port, target, await _handed(move, one, target, cloud), cloud)


async def unmake_ports(move: Move, cloud: Cloud) -> None:
    """Delete what was made, let go what was taken."""
    facts = move.facts
    theirs = {requested.port_id for requested in facts.requested_nics}
    await release(move, lambda port: port.id not in theirs, cloud)


async def learn_nics(move: Move, cloud: Cloud) -> MoveFacts:
    """Note the ports that the server has now, in the order in which they were requested."""
    facts = move.facts
    found = await cloud.network.ports_of([ServerId(move.subject)])
    names = await _names(facts, cloud)
    nics = []
    for requested, mac in zip(facts.requested_nics, facts.macs, strict=True):
        for port in found:
            if port.id == requested.port_id or (mac and (port.network_id, port.mac) == (requested.network_id, mac)):
                nic = port.as_nic(names.get(port.network_id), tag=requested.tag, is_ours=requested.port_id is None)
                nics.append(MovedPort.of(nic, port))
    return replace(facts, ports=tuple(nics))


async def _names(facts: MoveFacts, cloud: Cloud) -> dict[str, str]:
    networks: list[NetworkInfo] = await cloud.network.networks(facts.owner.project)
    return {network.id: network.name for network in networks}


# A delete


async def release(run: Run, is_ours: Callable[[Port], bool], cloud: Cloud) -> None:
    """Have the run's server hold no port. is_ours: tells of a port whether it was made for the server."""
    server = ServerId(run.subject)
    seen = own_ports(await cloud.network.ports_of([server]), [run.project_id])
    await check_in_hand(run, cloud)  # after the look: who sleeps in between finds other ports, or these changed
    for port in seen:
        if is_ours(port):
            await cloud.network.delete_port(port.id)
        else:
            await cloud.network.free_port(port.id, server, port.revision)


# Inside


async def device_owner(location: Location, cloud: Cloud) -> str:
    return f"compute:{await name_of(cloud.zones, location.zone)}"


def _ports(move: Move) -> tuple[MovedPort, ...]:
    facts = move.facts
    return facts.ports


async def _handed(move: Move, port: MovedPort, location: Location, cloud: Cloud) -> dict[str, Any]:
    """Give what a binding's profile is to say of a place: by which provider and which device the port is served."""
    handed: dict[str, Any] = dict.fromkeys(HANDED)
    handed[ALLOCATION] = allocation(port.requests, port.has_groups, location.served)
    if port.nic.vnic_type == DIRECT:
        devices = (await pci_devices.held(move, location, cloud)).get(port.nic.port_id, [])
        handed |= pci_devices.in_profile(devices[0]) if devices else {}
    return handed


async def _unless_gone(move: Move, cloud: Cloud, port_id: str, call: Awaitable[Any]) -> Any:
    """Give an answer, None: the port is not there any more, or somebody took it away from the server.

    Raises: Refused: it is, but not what was asked of it.
    """
    try:
        return await call
    except NotFound as missing:
        with suppress(NotFound):
            if (await cloud.network.port(port_id)).device_id == move.subject:
                raise Refused(missing.reason) from missing
        return None
