"""Attach and detach network interfaces of existing servers.

Invariant: a port is released only when no guest has it; the record is authoritative, and is written last.
"""

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, NotFound, WrongState
from whimbrel.domain.ip_addresses import mac_of
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import GuestNic, Nic, RequestedNic
from whimbrel.moves.steps import ports as network
from whimbrel.moves.steps.lease_check import check_in_hand
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.network import NewPort, Port, allocation
from whimbrel.ports.stores.zones import name_of
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import edit, lookup, operation
from whimbrel.servers.devices.interface_claims import (
    choose_claim,
    claim_as_before,
    find_assignment,
    give_back_claim,
    see_claim,
    set_claim,
)
from whimbrel.servers.devices.interface_facts import (
    InterfaceFacts,
    InterfaceOperation,
    changes_claim,
    has_function,
    names_port,
    nic_of,
)

STATES = ("active", "stopped")

REFRESHES = 3
"""Attempts to update addresses in a record against concurrent changes."""


# Attach


async def check_unplugged(run: InterfaceOperation, cloud: Cloud) -> None:
    """Check under the server's lock that the server does not have this port."""
    if any(nic.port_id == run.facts.requested.port_id for nic in (await _record(run, cloud)).nics):
        raise WrongState(f"Port {run.facts.requested.port_id} is still in use.")


async def have_port(run: InterfaceOperation, cloud: Cloud) -> None:
    """Take the requested port, or create one."""
    facts = run.facts
    await check_in_hand(run, cloud)
    if facts.requested.port_id:
        await cloud.network.take_port(facts.requested.port_id, run.subject, _owner(facts))
    else:
        assert facts.requested.network_id, "checked at the door"
        await cloud.network.create_port(
            NewPort(
                network_id=facts.requested.network_id,
                project_id=run.project_id,
                server=run.subject,
                device_owner=_owner(facts),
                mac=facts.mac,
                fixed_ip=facts.requested.fixed_ip,
                security_groups=facts.security_groups,
            )
        )


async def let_go_port(run: InterfaceOperation, cloud: Cloud) -> None:
    facts = run.facts
    await _release(run, cloud, is_ours=facts.requested.port_id is None)


async def find_port(run: InterfaceOperation, cloud: Cloud) -> Port | None:
    facts = run.facts
    for port in await cloud.network.ports_of([run.subject]):
        if facts.requested.port_id == port.id or (facts.requested.network_id, facts.mac) == (port.network_id, port.mac):
            return port
    return None


async def learn_nic(run: InterfaceOperation, cloud: Cloud) -> InterfaceFacts:
    facts = run.facts
    port = await find_port(run, cloud)
    if port is None:
        raise NotFound("The port is gone.")
    labels = {network.id: network.name for network in await cloud.network.networks(run.project_id)}
    is_ours = facts.requested.port_id is None
    return replace(facts, nic=port.as_nic(labels.get(port.network_id), tag=facts.requested.tag, is_ours=is_ours))


async def bind_port(run: InterfaceOperation, cloud: Cloud) -> None:
    """Bind with the port revision read before the check of the run: a delayed process then finds it changed."""
    port = await cloud.network.port(nic_of(run).port_id)
    await check_in_hand(run, cloud)
    served = run.facts.served
    said = allocation(port.requests, port.has_groups, served) if served else None
    await cloud.network.bind(port, operation.host_of(run), {network.ALLOCATION: said}, _owner(run.facts))


async def plug_nic(run: InterfaceOperation, cloud: Cloud) -> None:
    port = await cloud.network.port(nic_of(run).port_id)
    nic = GuestNic(
        port_id=port.id,
        mac=port.mac,
        vif_type=port.vif_type,
        vif_details=port.vif_details,
        network_id=port.network_id,
    )
    await operation.agent(run, cloud).plug(run.order, operation.key(run), nic)


async def unplug_nic(run: InterfaceOperation, cloud: Cloud) -> None:
    """Unplug the nic from the guest. A port that was never learned was never plugged."""
    if run.facts.nic:
        await operation.agent(run, cloud).unplug(run.order, operation.key(run), run.facts.nic.port_id)


async def record_plugged(run: InterfaceOperation, cloud: Cloud) -> None:
    await operation.settle(run, cloud, {"nics": (*await _others(run, cloud), nic_of(run))})


# Detach


async def check_plugged(run: InterfaceOperation, cloud: Cloud) -> None:
    """Check again under the server's lock."""
    if all(nic.port_id != nic_of(run).port_id for nic in (await _record(run, cloud)).nics):
        raise NotFound(f"Port id {nic_of(run).port_id} could not be found.")


async def plug_again(run: InterfaceOperation, cloud: Cloud) -> None:
    """Plug the nic as before, unless the port's owner has deleted it in the meantime."""
    try:
        await plug_nic(run, cloud)
    except NotFound:
        return


async def end_port(run: InterfaceOperation, cloud: Cloud) -> None:
    """Delete a port that was created for the server; release one that its owner created."""
    await _release(run, cloud, is_ours=nic_of(run).is_ours)


async def give_back_device(run: InterfaceOperation, cloud: Cloud) -> None:
    """Release the guest's virtual function for the port."""
    devices = cloud.cell(operation.cell_of(run)).devices
    await devices.release(run.order, operation.host_of(run), operation.key(run), [nic_of(run).port_id])


async def record_unplugged(run: InterfaceOperation, cloud: Cloud) -> None:
    await operation.settle(run, cloud, {"nics": await _others(run, cloud)})


async def _release(run: InterfaceOperation, cloud: Cloud, *, is_ours: bool) -> None:
    port = await find_port(run, cloud)
    await check_in_hand(run, cloud)  # after the read: a delayed process finds no such port, or a changed one
    if port and is_ours:
        await cloud.network.delete_port(port.id)
    elif port:
        await cloud.network.free_port(port.id, run.subject, port.revision)


def _owner(facts: InterfaceFacts) -> str:
    return f"compute:{facts.zone}"


async def _record(run: InterfaceOperation, cloud: Cloud) -> Server:
    return await operation.records(run, cloud).get(run.subject)


async def _others(run: InterfaceOperation, cloud: Cloud) -> tuple[Nic, ...]:
    """Return the record's other nics, with the current addresses of their ports."""
    now = {port.id: port.addresses for port in await cloud.network.ports_of([run.subject])}
    nics = (await _record(run, cloud)).nics
    return tuple(
        replace(nic, addresses=now.get(nic.port_id, nic.addresses))
        for nic in nics
        if nic.port_id != nic_of(run).port_id
    )


_ATTACH = "compute_attach_interface"
_DETACH = "compute_detach_interface"

ATTACH_INTERFACE = Saga(
    "attach_interface",
    1,
    InterfaceFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(have_port, set_claim, plug_nic)),
        Step(check_unplugged, only_if=names_port, in_request=True),
        Step(
            have_port, undo=let_go_port, in_request=True, event=_ATTACH, after=(plug_nic,)
        ),  # the response shows its addresses
        Step(learn_nic),
        Step(choose_claim, event=_ATTACH),
        Step(set_claim, undo=claim_as_before, only_if=changes_claim, event=_ATTACH),
        Step(bind_port, event=_ATTACH),  # ends when the port is released
        Step(plug_nic, undo=unplug_nic, event=_ATTACH),
    ),
    forward_only=(Step(record_plugged, event=_ATTACH),),
)

DETACH_INTERFACE = Saga(
    "detach_interface",
    1,
    InterfaceFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(unplug_nic,)),
        Step(check_plugged, in_request=True),
        Step(see_claim),
        Step(unplug_nic, undo=plug_again, event=_DETACH),
    ),
    forward_only=(
        Step(end_port, event=_DETACH),
        Step(give_back_device, only_if=has_function, event=_DETACH),
        Step(give_back_claim, only_if=changes_claim, event=_DETACH),
        Step(record_unplugged, event=_DETACH),
    ),
)


# Requests


async def attach(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    server: Server,
    requested: RequestedNic,
    security_groups: tuple[str, ...] = (),
) -> Port | None:
    """Start to attach an interface by port or network. Return its port, or None if it is deleted already.
    Raises: WrongState; Conflict; Unavailable; errors of the network service.
    """
    run = await operation.accept(
        cloud, engine, requester, server, ATTACH_INTERFACE, "attach_interface", None, STATES,
        requested=requested, zone=await _zone(cloud, server), security_groups=security_groups, devices=True,
        mac="" if requested.port_id else mac_of(cloud.ids.uuid()),
    )  # fmt: skip
    return await find_port(run, cloud)


async def check_room(cloud: Cloud, server: Server, port: Port) -> None:
    """Check the port's resources. Raises: Refused: the server's host lacks them."""
    if port.requests:
        await find_assignment(cloud, server, port)


async def detach(cloud: Cloud, engine: Engine, requester: Requester, server: Server, nic: Nic) -> None:
    """Start to detach an interface. Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(
        cloud, engine, requester, server, DETACH_INTERFACE, "detach_interface", None, STATES,
        requested=RequestedNic(port_id=nic.port_id), zone=await _zone(cloud, server), nic=nic, devices=True,
    )  # fmt: skip


async def refresh(cloud: Cloud, server: Server) -> None:
    """Update the record with the current addresses of its ports. Raises: Conflict: it changes too often."""
    for _ in range(REFRESHES):
        now = {port.id: port.addresses for port in await cloud.network.ports_of([server.id])}
        nics = tuple(replace(nic, addresses=now.get(nic.port_id, nic.addresses)) for nic in server.nics)
        if nics == server.nics:
            return
        try:
            await edit.change(cloud, server, {"nics": nics})
            return
        except Conflict:
            server = await lookup.find(cloud, server.id)
    raise Conflict(f"server {server.id} is changed all the time")


async def _zone(cloud: Cloud, server: Server) -> str:
    return await name_of(cloud.zones, server.zone or cloud.rules.default_availability_zone)
