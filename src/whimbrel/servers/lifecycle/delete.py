"""Delete servers: a saga of forward-only steps. A server with an open run is deleted when that has ended."""

from whimbrel.domain import server_states
from whimbrel.domain.errors import Conflict, Invalid, NotFound, Unavailable, WrongState
from whimbrel.domain.operation_facts import (
    Operation,
    OperationFacts,
    has_devices,
    has_shelved_images,
    holds_devices,
    is_in_cell,
    is_placed,
)
from whimbrel.domain.server import Server
from whimbrel.moves import live_requests, requests
from whimbrel.moves.live_migrate import LIVE_MIGRATE
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.moves.steps import claims, guest, ports, shelved_images, volumes
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import lookup, operation
from whimbrel.servers.cleanup.late_effects import made_macs


async def mark_deleting(run: Operation, cloud: Cloud) -> None:
    """Lock the server in any state. Without a cell there is no lock: its open run already excludes others."""
    if is_in_cell(run.facts):
        await operation.lock(run, cloud)
    elif (await cloud.directory.entry(run.subject)).cell:
        raise WrongState(f"Instance {run.subject} has found a host meanwhile.")


async def destroy_guest(run: Operation, cloud: Cloud) -> None:
    await guest.destroy_at(operation.cell_of(run), operation.host_of(run), run.order, operation.key(run), cloud)


async def let_go_volumes(run: Operation, cloud: Cloud) -> None:
    """Detach its volumes, and delete those with delete_on_termination."""
    await volumes.detach_all(run, cloud)
    await volumes.delete_with(await operation.records(run, cloud).get(run.subject), cloud)


async def let_go_ports(run: Operation, cloud: Cloud) -> None:
    """Delete the ports that were created for it, also by stale requests, and release those of its owner."""
    record = await operation.records(run, cloud).get(run.subject)
    made, macs = {nic.port_id for nic in record.nics if nic.is_ours}, await made_macs(run.subject, cloud)
    await ports.release(run, lambda port: port.id in made or port.mac in macs, cloud)


async def release_devices(run: Operation, cloud: Cloud) -> None:
    """Release the host's devices; the guest is destroyed by now."""
    facts = run.facts
    if facts.cell and facts.host:
        await cloud.cell(facts.cell).devices.release(run.order, facts.host, operation.key(run))


async def close_record(run: Operation, cloud: Cloud) -> None:
    """Keep the row, as deleted, for queries of deleted servers."""
    now = cloud.clock.now()
    fields = {
        "vm_state": server_states.after(run.facts.was, "deleted"),
        "deleted_at": now,
        "terminated_at": now,
        "updated_at": now,
    }
    await operation.records(run, cloud).unlock(run.order, run.subject, fields)


async def erase_entry(run: Operation, cloud: Cloud) -> None:
    """Delete the directory entry; from here on the server is not found and uses no quota."""
    await cloud.directory.erase(run.order, run.subject, cloud.clock.now())


async def drop_images(run: Operation, cloud: Cloud) -> None:
    """Delete the images of a shelved server."""
    await shelved_images.delete(run.facts.shelved_images, cloud)


_EVENT = "compute_terminate_instance"

DELETE: Saga[OperationFacts] = Saga(
    "delete",
    2,
    OperationFacts,
    undoable=(),
    forward_only=(
        Step(mark_deleting, in_request=True),
        Step(destroy_guest, only_if=is_placed, event=_EVENT),
        Step(let_go_volumes, only_if=holds_devices, event=_EVENT),
        Step(let_go_ports, only_if=holds_devices, event=_EVENT),
        Step(release_devices, only_if=has_devices, event=_EVENT),
        Step(claims.release_server, event=_EVENT),
        Step(drop_images, only_if=has_shelved_images, event=_EVENT),
        Step(close_record, unlocks=True, only_if=is_in_cell, event=_EVENT),
        Step(erase_entry, event=_EVENT),
    ),
)
"""Version 2 also deletes servers that were shelved and offloaded: they are in a cell and on no host."""


async def accept(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Delete a server, or record that it is to be deleted when its open run has ended.
    Raises: NotFound; Unavailable.
    """
    try:
        await _start(cloud, engine, requester, server)
    except Conflict:
        await cloud.directory.want_delete(server.id, requester.request_id, requester.user_id)
        await _hasten(cloud, engine, requester, server)


async def reclaim(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Delete a soft-deleted server, unless it is not that any more.
    Raises: WrongState; Conflict; Unavailable.
    """
    await _start(cloud, engine, requester, server)


async def follow_up(cloud: Cloud, engine: Engine) -> int:
    """Start the recorded deletes of servers with an ended run; return how many."""
    started = 0
    for server_id, request_id, user_id in await cloud.directory.wanted_deletes():
        try:
            server = await lookup.find(cloud, server_id)
            requester = Requester(user_id=user_id, project_id=server.project_id, request_id=request_id)
            started += await _start_or_hasten(cloud, engine, requester, server)
        except NotFound:
            continue  # already deleted
        except Unavailable:
            continue  # its cell is unreachable: retry in the next round
    return started


async def _start_or_hasten(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> int:
    """Return the number of started deletes. A parked move may block one that an operation blocked before."""
    try:
        await _start(cloud, engine, requester, server)
    except Conflict:
        await _hasten(cloud, engine, requester, server)
        return 0
    return 1


async def _start(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    is_offloaded = server.cell is not None and server.host is None
    await operation.accept(
        cloud, engine, requester, server, DELETE, "delete", "deleting", server_states.VM_STATES,
        before_queued=True, shelved_images=server.shelved_images, oldest=2 if is_offloaded else 1,
    )  # fmt: skip


async def _hasten(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """End the open run: confirm a waiting move, roll back a run that can still be undone."""
    run = await cloud.journal.open_run(server.id)
    if run is None or run.saga == DELETE.name:
        return
    try:
        if run.state == "parked" and run.saga in MOVE_SAGAS:
            await requests.confirm(cloud, engine, requester, server)
        elif run.saga == LIVE_MIGRATE.name:
            await live_requests.abort(cloud, engine, requester, server, run)
        elif run.way == "forward" and not run.is_foreign and engine.registry.of(run).may_turn_back(run.at):
            await requests.turn_back(cloud, engine, run.id)
    except (Conflict, Invalid):
        return  # it ends by itself, or has ended
