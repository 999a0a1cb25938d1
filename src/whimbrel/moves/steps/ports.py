"""The server's ports: first bound inactively at the target, then activated there; the reverse on the way back.

A port that its owner deletes or detaches meanwhile is skipped.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.pci import DIRECT
from whimbrel.domain.run import Run
from whimbrel.domain.server_devices import GuestNic
from whimbrel.moves.facts import Location, Move, MovedPort, MoveFacts, changes_host, source_of, target_of
from whimbrel.moves.steps import pci_devices
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.network import NetworkInfo, NewPort, Port, allocation, own_ports
from whimbrel.ports.stores.zones import name_of

ALLOCATION = "allocation"
HANDED = (ALLOCATION, "pci_slot", "pci_vendor_info", "physical_network")
"""The keys of a binding's profile that name the providers and the device of the host that serve a port."""


# Reading


async def guest_nics(move: Move, location: Location, cloud: Cloud) -> tuple[GuestNic, ...]:
    """Return the nics for the host of a location, one for each port that is bound there now."""
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
            continue  # deleted by its owner
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


async def arriving_nics(move: Move, cloud: Cloud) -> tuple[GuestNic, ...]:
    """Return the nics for the target of a live migration, by the ports' bindings there, which are not active yet."""
    target, nics = target_of(move), []
    direct = any(port.nic.vnic_type == DIRECT for port in _ports(move))
    devices = await pci_devices.held(move, target, cloud) if direct else {}
    for port in _ports(move):
        port_id = port.nic.port_id
        bindings = await _unless_gone(move, cloud, port_id, cloud.network.bindings(port_id))
        if bindings is None:
            continue  # deleted by its owner
        here = next((binding for binding in bindings if binding.host == target.host), None)
        if here is None:
            raise Unavailable(f"port {port_id} has no binding on {target.host} yet")
        nics.append(
            GuestNic(
                port_id=port_id,
                mac=port.nic.mac,
                vif_type=here.vif_type,
                vif_details=here.vif_details,
                network_id=port.nic.network_id,
                pci_address=next((one.address for one in devices.get(port_id, [])), None),
            )
        )
    return tuple(nics)


# A move


async def bind_target(move: Move, cloud: Cloud) -> None:
    """Ensure that each port has a binding at the target, still inactive. A later move may already have made one."""
    target = target_of(move)
    profiles = [{**port.profile, **await _handed(move, port, target, cloud)} for port in _ports(move)]
    await check_epoch(move, cloud)
    for port, profile in zip(_ports(move), profiles, strict=True):
        port_id = port.nic.port_id
        call = cloud.network.create_binding(port_id, target.host, port.nic.vnic_type, profile)
        await _unless_gone(move, cloud, port_id, call)


async def unbind_target(move: Move, cloud: Cloud) -> None:
    await check_epoch(move, cloud)
    await return_ports(move, cloud)
    await cloud.network.delete_bindings([port.nic.port_id for port in _ports(move)], target_of(move).host)


async def leave_ports(move: Move, cloud: Cloud) -> None:
    """Do nothing: `activate_target` activates the ports. The step exists for its undo."""


async def return_ports(move: Move, cloud: Cloud) -> None:
    """Ensure that no port is active at the target: a delayed activation may have arrived after its undo."""
    ours = {port.nic.port_id for port in _ports(move)}
    seen = await cloud.network.ports_of([ServerId(move.subject)], with_requests=False)
    if any(port.id in ours and port.host == target_of(move).host for port in seen):
        await activate_source(move, cloud)


async def activate_target(move: Move, cloud: Cloud) -> None:
    """Activate the ports at the target. On the same host only the providers and devices that serve them may change."""
    await check_epoch(move, cloud)
    target = target_of(move)
    for port in _ports(move):
        await _activate(move, port, target, await _handed(move, port, target, cloud), cloud)


async def activate_arrived(move: Move, cloud: Cloud) -> None:
    """Activate the ports at the target of a live migration. What a delayed call has unbound there is bound again."""
    await check_epoch(move, cloud)
    target = target_of(move)
    for port in _ports(move):
        port_id = port.nic.port_id
        profile = {**port.profile, **await _handed(move, port, target, cloud)}
        await _unless_gone(move, cloud, port_id, _serve(move, port, target, profile, cloud))
        if source_of(move).zone != target.zone:
            owner = await device_owner(target, cloud)
            await _unless_gone(move, cloud, port_id, cloud.network.set_owner(port_id, owner))


async def activate_source(move: Move, cloud: Cloud) -> None:
    await check_epoch(move, cloud)
    for port in _ports(move):
        await _activate(move, port, source_of(move), {name: port.profile.get(name) for name in HANDED}, cloud)


async def _activate(move: Move, port: MovedPort, location: Location, profile: Mapping[str, Any], cloud: Cloud) -> None:
    port_id, network = port.nic.port_id, cloud.network
    if not changes_host(move.facts):
        if port.requests or port.nic.vnic_type == DIRECT:
            await _unless_gone(move, cloud, port_id, _bind_again(move, port_id, location, profile, cloud))
        return
    whole = {**port.profile, **profile}
    await _unless_gone(move, cloud, port_id, _serve(move, port, location, whole, cloud))
    if source_of(move).zone != target_of(move).zone:
        await _unless_gone(move, cloud, port_id, network.set_owner(port_id, await device_owner(location, cloud)))


async def _serve(move: Move, port: MovedPort, location: Location, profile: Mapping[str, Any], cloud: Cloud) -> None:
    """Activate a port at a location, with a binding that connects it.

    Its binding was deleted, if a delayed unbinding of an earlier move arrived, or cleared, if another one was active
    since: then it is made anew. A conductor that is delayed in between may bind, but does not activate.
    """
    network, port_id, host = cloud.network, port.nic.port_id, location.host
    if not await is_connected_at(port_id, host, cloud):
        if (await network.port(port_id)).device_id != move.subject:
            return
        await check_epoch(move, cloud)
        await network.create_binding(port_id, host, port.nic.vnic_type, profile)
        await check_epoch(move, cloud)
    await network.activate_binding(port_id, host)


async def is_connected_at(port_id: str, host: HostName, cloud: Cloud) -> bool:
    """Check whether a port has a binding that connects it on a host, active or not. Raises: NotFound."""
    return any(one.host == host and one.is_connected for one in await cloud.network.bindings(port_id))


async def _bind_again(move: Move, port_id: str, location: Location, profile: Mapping[str, Any], cloud: Cloud) -> None:
    await _bind(move, await cloud.network.port(port_id), location, profile, cloud)


async def _bind(move: Move, port: Port, location: Location, profile: Mapping[str, Any], cloud: Cloud) -> None:
    """Bind a port at the revision read before the lease check: if this process is delayed, the port has changed."""
    await check_epoch(move, cloud)
    await cloud.network.bind(port, location.host, profile, await device_owner(location, cloud))


async def unbind_source(move: Move, cloud: Cloud) -> None:
    """Ensure that no port is bound at the source. A delayed call of an earlier move may have activated one there."""
    await check_epoch(move, cloud)
    ports = [port.nic.port_id for port in _ports(move)]
    try:
        await cloud.network.delete_bindings(ports, source_of(move).host)
    except Refused:  # these bindings are active
        await activate_target(move, cloud)
        await cloud.network.delete_bindings(ports, source_of(move).host)


# A create


async def make_ports(move: Move, cloud: Cloud) -> None:
    """Create the requested ports, take the existing ones, and bind them all to the host."""
    facts = move.facts
    target, server = target_of(move), ServerId(move.subject)
    owner = await device_owner(target, cloud)
    for requested, mac in zip(facts.requested_nics, facts.macs, strict=True):
        if requested.port_id:
            port = await cloud.network.take_port(requested.port_id, server, owner)
        else:
            assert requested.network_id, "checked by the request"
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
    """Delete the ports that were created, by their MACs, and release all others that name the server."""
    made = {mac for mac in move.facts.macs if mac}
    await release(move, lambda port: port.mac in made, cloud)


async def learn_nics(move: Move, cloud: Cloud) -> MoveFacts:
    """Return the facts with the server's current ports, in the order of the requests."""
    facts = move.facts
    found = await cloud.network.ports_of([ServerId(move.subject)])
    await _check_taken(move, {port.id for port in found}, cloud)
    names = await _names({port.network_id for port in found}, cloud)
    nics = []
    for requested, mac in zip(facts.requested_nics, facts.macs, strict=True):
        for port in found:
            if port.id == requested.port_id or (mac and (port.network_id, port.mac) == (requested.network_id, mac)):
                nic = port.as_nic(names.get(port.network_id), tag=requested.tag, is_ours=requested.port_id is None)
                nics.append(MovedPort.of(nic, port))
    return replace(facts, ports=tuple(nics))


async def _check_taken(move: Move, found: Collection[str], cloud: Cloud) -> None:
    """Raises: Refused: another server has a requested port; Neutron may let two concurrent requests both take it."""
    for requested in move.facts.requested_nics:
        if requested.port_id and requested.port_id not in found:
            with suppress(NotFound):  # its owner deleted it
                if (await cloud.network.port(requested.port_id)).device_id not in ("", move.subject):
                    raise Refused(f"Port {requested.port_id} is still in use.")


async def _names(ids: Collection[str], cloud: Cloud) -> dict[str, str]:
    networks: list[NetworkInfo] = await cloud.network.networks(None, sorted(ids))
    return {network.id: network.name for network in networks}


# An offload, and the way back


async def bind_anew(move: Move, cloud: Cloud) -> None:
    """Bind the ports, which no host has, to the target."""
    target = target_of(move)
    owner = await device_owner(target, cloud)
    for moved_port in _ports(move):
        profile = await _handed(move, moved_port, target, cloud)
        with suppress(NotFound):  # its owner deleted it
            port = await cloud.network.port(moved_port.nic.port_id)
            if port.device_id == move.subject:
                await check_epoch(move, cloud)  # after the read: if delayed here, the port has changed
                await cloud.network.bind(port, target.host, profile, owner)


async def unbind_anew(move: Move, cloud: Cloud) -> None:
    """Bind the ports to no host again; their owner is as before, that of the server's last zone."""
    home = move.facts.home
    zone = (home.zone if home else None) or cloud.rules.default_availability_zone
    owner = f"compute:{await name_of(cloud.zones, zone)}"
    await unbind_all(move, {port.nic.port_id for port in _ports(move)}, cloud, owner)


async def unbind_all(run: Run, ids: Collection[str], cloud: Cloud, owner: str | None = None) -> None:
    """Bind these ports of the server to no host. Each is changed, so that a delayed call finds it changed.

    owner: the new device owner; None: as it is.
    """
    seen = await cloud.network.ports_of([ServerId(run.subject)], with_requests=False)
    await check_epoch(run, cloud)
    for port in seen:
        if port.id in ids:
            with suppress(NotFound):  # its owner deleted it
                await cloud.network.unbind(port, dict.fromkeys(HANDED), owner or port.device_owner)


# A delete


async def release(run: Run, is_ours: Callable[[Port], bool], cloud: Cloud) -> None:
    """Ensure that the run's server holds no port. is_ours: whether a port was created for the server."""
    server = ServerId(run.subject)
    seen = own_ports(await cloud.network.ports_of([server]), [run.project_id])
    await check_epoch(run, cloud)  # after the read: if delayed here, the ports are others or changed
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
    """Return the HANDED keys of a binding profile at a location, None where nothing serves the port."""
    handed: dict[str, Any] = dict.fromkeys(HANDED)
    handed[ALLOCATION] = allocation(port.requests, port.has_groups, location.served)
    if port.nic.vnic_type == DIRECT:
        devices = (await pci_devices.held(move, location, cloud)).get(port.nic.port_id, [])
        handed |= pci_devices.in_profile(devices[0]) if devices else {}
    return handed


async def _unless_gone(move: Move, cloud: Cloud, port_id: str, call: Awaitable[Any]) -> Any:
    """Return the answer, or None if the port was deleted or detached from the server.

    Raises: Refused: the port is there, but the object of the call is not.
    """
    try:
        return await call
    except NotFound as missing:
        with suppress(NotFound):
            if (await cloud.network.port(port_id)).device_id == move.subject:
                raise Refused(missing.reason) from missing
        return None
