"""Attach and detach network interfaces of existing servers.

Invariant: a port is released only when no guest has it; the record is authoritative, and is written last.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, NotFound, WrongState
from whimbrel.domain.ip_addresses import mac_of
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import FloatingAddress, GuestNic, Nic, RequestedNic
from whimbrel.moves.steps import ports as network
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.network import NewPort, Port, allocation
from whimbrel.ports.stores.zones import name_of
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import edit, lookup, operation
from whimbrel.servers.devices import device_turns
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

STATES = ("active", "paused", "stopped")

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
    await check_epoch(run, cloud)
    if facts.requested.port_id:
        await cloud.network.take_port(facts.requested.port_id, run.subject, _owner(facts))
    else:
        assert facts.requested.network_id, "checked by the request"
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
    """Release the port, unless the server's record has it: then another operation has attached it."""
    facts = run.facts
    if facts.requested.port_id and await _is_recorded(run, cloud):
        return
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
    labels = {network.id: network.name for network in await cloud.network.networks(None, [port.network_id])}
    is_ours = facts.requested.port_id is None
    return replace(facts, nic=port.as_nic(labels.get(port.network_id), tag=facts.requested.tag, is_ours=is_ours))


async def bind_port(run: InterfaceOperation, cloud: Cloud) -> None:
    """Bind with the port revision read before the check of the run: a delayed process then finds it changed."""
    port = await cloud.network.port(nic_of(run).port_id)
    await check_epoch(run, cloud)
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


async def check_plugged(run: InterfaceOperation, cloud: Cloud) -> InterfaceFacts:
    """Check again under the server's lock. Return the facts with the nic, which may have been attached meanwhile."""
    port_id = run.facts.requested.port_id
    for nic in (await _record(run, cloud)).nics:
        if nic.port_id == port_id:
            return replace(run.facts, nic=run.facts.nic or nic)
    raise NotFound(f"Port id {port_id} could not be found.")


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
    await check_epoch(run, cloud)  # after the read: a delayed process finds no such port, or a changed one
    if port and is_ours:
        await cloud.network.delete_port(port.id)
    elif port:
        await cloud.network.free_port(port.id, run.subject, port.revision)


def _owner(facts: InterfaceFacts) -> str:
    return f"compute:{facts.zone}"


async def _record(run: InterfaceOperation, cloud: Cloud) -> Server:
    return await operation.records(run, cloud).get(run.subject)


async def _is_recorded(run: InterfaceOperation, cloud: Cloud) -> bool:
    try:
        return any(nic.port_id == run.facts.requested.port_id for nic in (await _record(run, cloud)).nics)
    except NotFound:
        return False


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
    2,
    InterfaceFacts,
    undoable=(
        # The response shows its addresses, also if it is not the turn of this run yet.
        Step(have_port, undo=let_go_port, in_request=True, event=_ATTACH, after=(plug_nic,)),
        Step(operation.lock, undo=operation.unlock, in_request=True, in_turn=True, after=(set_claim, plug_nic)),
        Step(check_unplugged, only_if=names_port, in_request=True),
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
    2,
    InterfaceFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, in_turn=True, after=(unplug_nic,)),
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
    mac = "" if requested.port_id else mac_of(cloud.ids.uuid())

    async def accept(record: Server, before: Sequence[Run]) -> InterfaceOperation:
        held = {nic.port_id for nic in record.nics} | {run.facts.requested.port_id for run in arriving(before)}
        if requested.port_id and requested.port_id in held:
            raise WrongState(f"Port {requested.port_id} is still in use.")
        return await operation.accept(
            cloud, engine, requester, record, ATTACH_INTERFACE, "attach_interface", None, STATES, **_turn(before),
            requested=requested, zone=await _zone(cloud, record), security_groups=security_groups, devices=True,
            mac=mac,
        )  # fmt: skip

    return await find_port(await device_turns.take(cloud, server, accept), cloud)


def arriving(runs: Iterable[Run]) -> list[InterfaceOperation]:
    """List those runs that are about to attach an interface."""
    return [
        run
        for run in runs
        if run.saga == ATTACH_INTERFACE.name and run.way == "forward" and has_facts(run, InterfaceFacts)
    ]


async def check_room(cloud: Cloud, server: Server, port: Port) -> None:
    """Check the port's resources. Raises: Refused: the server's host lacks them."""
    if port.requests:
        await find_assignment(cloud, server, port)


async def detach(cloud: Cloud, engine: Engine, requester: Requester, server: Server, port_id: str) -> None:
    """Start to detach an interface, also one that is being attached; nothing if it is being detached.
    Raises: NotFound: the server does not have it; WrongState; Conflict; Unavailable.
    """

    async def accept(record: Server, before: Sequence[Run]) -> None:
        if any(_detaches(run, port_id) for run in before):
            return
        nic = next((nic for nic in record.nics if nic.port_id == port_id), None)
        if nic is None and not await _is_arriving(port_id, before, cloud):
            raise NotFound(f"Port id {port_id} could not be found.")
        await operation.accept(
            cloud, engine, requester, record, DETACH_INTERFACE, "detach_interface", None, STATES, **_turn(before),
            requested=RequestedNic(port_id=port_id), zone=await _zone(cloud, record), nic=nic, devices=True,
        )  # fmt: skip

    is_known = any(nic.port_id == port_id for nic in server.nics)
    await device_turns.take(cloud, server, accept, look_first=not is_known)


def _detaches(run: Run, port_id: str) -> bool:
    is_detach = run.saga == DETACH_INTERFACE.name and run.way == "forward"
    return is_detach and has_facts(run, InterfaceFacts) and run.facts.requested.port_id == port_id


async def _is_arriving(port_id: str, before: Sequence[Run], cloud: Cloud) -> bool:
    """Check whether one of these runs attaches this port. The port of a network is known by its MAC."""
    runs = arriving(before)
    mac = (await cloud.network.port(port_id)).mac if runs else ""
    return any(run.facts.requested.port_id == port_id or run.facts.mac == mac for run in runs)


def _turn(before: Sequence[Run]) -> dict[str, Any]:
    """Return the arguments of `operation.accept` that queue an operation behind those before it."""
    return {"behind": [run.id for run in before], "oldest": 2} if before else {}


async def refresh(cloud: Cloud, server: Server) -> None:
    """Update the record with the current addresses of its ports. Raises: Conflict: it changes too often."""
    for _ in range(REFRESHES):
        now = {port.id: port.addresses for port in await cloud.network.ports_of([server.id])}
        floating = await floating_addresses(cloud, [server])
        nics = tuple(
            replace(nic, addresses=now.get(nic.port_id, nic.addresses), floating=floating.get(nic.port_id, ()))
            for nic in server.nics
        )
        if nics == server.nics:
            return
        try:
            await edit.change(cloud, server, {"nics": nics})
            return
        except Conflict:
            server = await lookup.find(cloud, server.id)
    raise Conflict(f"server {server.id} is changed all the time")


async def floating_addresses(cloud: Cloud, servers: Sequence[Server]) -> dict[str, tuple[FloatingAddress, ...]]:
    """Return the floating addresses of the servers' ports, by port."""
    ports = [nic.port_id for server in servers for nic in server.nics]
    found: dict[str, tuple[FloatingAddress, ...]] = {}
    for floating in await cloud.network.floating_ips(ports=ports) if ports else ():
        if floating.port_id and floating.fixed_address:
            address = FloatingAddress(floating.address, floating.fixed_address)
            found[floating.port_id] = (*found.get(floating.port_id, ()), address)
    return found


async def _zone(cloud: Cloud, server: Server) -> str:
    return await name_of(cloud.zones, server.zone or cloud.rules.default_availability_zone)
