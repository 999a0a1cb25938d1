"""Deleting: a line that only goes forward. A server with a run under way is deleted when that has ended."""

from whimbrel.domain import server_states
from whimbrel.domain.errors import Conflict, Invalid, NotFound, Unavailable, WrongState
from whimbrel.domain.operation_facts import Operation, OperationFacts, has_devices, is_placed
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.moves.steps import claims, ports, volumes
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import lookup, operation
from whimbrel.servers.cleanup.late_effects import made_macs


async def mark_deleting(run: Operation, cloud: Cloud) -> None:
    """Take the server, whatever its state. One that lives nowhere is taken: nobody else can have an open run on it."""
    if is_placed(run.facts):
        await operation.lock(run, cloud)
    elif (await cloud.directory.entry(run.subject)).cell:
        raise WrongState(f"Instance {run.subject} has found a host meanwhile.")


async def destroy_guest(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).destroy(run.order, operation.key(run))


async def let_go_volumes(run: Operation, cloud: Cloud) -> None:
    """Detach its volumes, and delete those that were to go with it."""
    await volumes.detach_all(run, cloud)
    await volumes.delete_with(await operation.records(run, cloud).get(run.subject), cloud)


async def let_go_ports(run: Operation, cloud: Cloud) -> None:
    """Delete the ports that were made for it, also those that came late, and let go those that are its owner's."""
    record = await operation.records(run, cloud).get(run.subject)
    made, macs = {nic.port_id for nic in record.nics if nic.is_ours}, await made_macs(run.subject, cloud)
    await ports.release(run, lambda port: port.id in made or port.mac in macs, cloud)


async def release_devices(run: Operation, cloud: Cloud) -> None:
    """Have its guest hold no device of the host; the guest is gone by now."""
    facts = run.facts
    if facts.cell and facts.host:
        await cloud.cell(facts.cell).devices.release(run.order, facts.host, operation.key(run))


async def close_record(run: Operation, cloud: Cloud) -> None:
    """Keep the row, as deleted, for those who ask for deleted servers."""
    now = cloud.clock.now()
    fields = {
        "vm_state": server_states.after(run.facts.was, "deleted"),
        "deleted_at": now,
        "terminated_at": now,
        "updated_at": now,
    }
    await operation.records(run, cloud).unlock(run.order, run.subject, fields)


async def erase_entry(run: Operation, cloud: Cloud) -> None:
    """From here on nobody finds it, and it counts for nothing."""
    await cloud.directory.erase(run.order, run.subject, cloud.clock.now())


DELETE: Saga[OperationFacts] = Saga(
    "delete",
    1,
    OperationFacts,
    undoable=(),
    forward_only=(
        Step(mark_deleting, in_request=True),
        Step(destroy_guest, only_if=is_placed, event="compute_terminate_instance"),
        Step(let_go_volumes, only_if=has_devices, event="compute_terminate_instance"),
        Step(let_go_ports, only_if=has_devices, event="compute_terminate_instance"),
        Step(release_devices, only_if=has_devices, event="compute_terminate_instance"),
        Step(claims.release_server, event="compute_terminate_instance"),
        Step(close_record, unlocks=True, only_if=is_placed, event="compute_terminate_instance"),
        Step(erase_entry, event="compute_terminate_instance"),
    ),
)


async def accept(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Delete a server, or note that it is to be deleted as soon as what is under way has ended.

    Raises: NotFound; Unavailable.
    """
    try:
        await _start(cloud, engine, requester, server)
    except Conflict:
        await cloud.directory.want_delete(server.id, requester.request_id, requester.user_id)
        await _hasten(cloud, engine, requester, server)


async def follow_up(cloud: Cloud, engine: Engine) -> int:
    """Start the deletes that waited for a run that has ended; give how many."""
    started = 0
    for server_id, request_id, user_id in await cloud.directory.wanted_deletes():
        try:
            server = await lookup.find(cloud, server_id)
            requester = Requester(user_id=user_id, project_id=server.project_id, request_id=request_id)
            started += await _start_or_hasten(cloud, engine, requester, server)
        except NotFound:
            continue  # it is gone
        except Unavailable:
            continue  # its cell is away: the next round sees
    return started


async def _start_or_hasten(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> int:
    """Give how many were started. A move that waits is in the way where an errand was when the delete was asked for."""
    try:
        await _start(cloud, engine, requester, server)
    except Conflict:
        await _hasten(cloud, engine, requester, server)
        return 0
    return 1


async def _start(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await operation.accept(cloud, engine, requester, server, DELETE, "delete", "deleting", server_states.VM_STATES)


async def _hasten(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """End what is under way: a move that waits is confirmed, one that can still be undone is turned back."""
    run = await cloud.journal.open_run(server.id)
    if run is None or run.saga == DELETE.name:
        return
    try:
        if run.state == "parked" and run.saga in MOVE_SAGAS:
            await requests.confirm(cloud, engine, requester, server)
        elif run.way == "forward" and engine.registry.of(run).may_turn_back(run.at):
            await requests.turn_back(cloud, engine, run.id)
    except (Conflict, Invalid):
        return  # it ends by itself, or has ended
