"""Requests for live migrations: begin one, abort it, have it completed at once."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, Refused, WrongState
from whimbrel.domain.ids import HostName
from whimbrel.domain.live_policy import policy_of
from whimbrel.domain.run import Run, Verdict
from whimbrel.domain.server import Server
from whimbrel.moves.facts import LiveFacts, MoveFacts, needs_disks
from whimbrel.moves.live_migrate import LIVE_MIGRATE
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.moves.opening import new_action, new_run
from whimbrel.moves.requests import check_target, check_zone, facts_of, plan, turn_back
from whimbrel.moves.steps.guest_transfer import transfer
from whimbrel.moves.steps.live import examined, wrong_disks
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.journal import ItemStart
from whimbrel.saga.engine import Engine
from whimbrel.scheduling.decision import DecisionTrace

LIVE_STATES = ("active", "paused")
"""The vm_states of servers that can be migrated live."""

_TRIES = 3


async def migrate_live(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    server: Server,
    host: HostName | None,
    *,
    forced: bool = False,
    block_migration: bool | None = None,
    zone: str | None = None,
    leaves_zone: bool = False,
    leaves_cell: bool = False,
    policy: Mapping[str, Any] | None = None,
    item: ItemStart | None = None,
) -> Run[MoveFacts]:
    """Begin a live migration. host: None: the scheduler chooses.

    forced: whether the host is taken also if the operator reserves or spares it.
    block_migration: None: as the disks of the server need it. zone: id of the one that it is to move to.
    leaves_zone, leaves_cell: whether it may leave the zone that binds it, and its cell.
    policy: fields of `LivePolicy` for this one; they go before those of its flavor and its project.
    item: of the maintenance that moves it.
    Raises: Invalid: impossible as requested; WrongState; Conflict; Unavailable.
    """
    if forced:
        engine.check_heeded("forced")
    facts = await live_facts(
        cloud,
        server,
        host,
        forced=forced,
        block_migration=block_migration,
        zone=zone,
        leaves_zone=leaves_zone,
        leaves_cell=leaves_cell,
        policy=policy,
    )
    run = new_run(cloud, engine, requester, server, LIVE_MIGRATE, facts)
    run = await engine.accept(run, new_action(cloud, requester, server, "live-migration", run.id), item=item)
    await engine.begin(run)
    return run


async def live_facts(
    cloud: Cloud,
    server: Server,
    host: HostName | None,
    *,
    forced: bool = False,
    block_migration: bool | None = None,
    zone: str | None = None,
    leaves_zone: bool = False,
    leaves_cell: bool = False,
    policy: Mapping[str, Any] | None = None,
) -> MoveFacts:
    """Return the facts with which a live migration begins, or is planned. Arguments, Raises: as `migrate_live`."""
    if server.vm_state not in LIVE_STATES:
        raise WrongState(f"Cannot 'os-migrateLive' instance {server.id} while it is in vm_state {server.vm_state}")
    chosen = policy_of(cloud.rules.live, server.project_id, server.flavor.extra_specs, policy or {})
    facts = replace(
        await facts_of(cloud, server),
        wanted_host=host,
        forced=forced,
        asked_zone=zone,
        leaves_zone=leaves_zone,
        leaves_cell=leaves_cell,
        live=LiveFacts(policy=chosen, block_migration=block_migration),
    )
    if why := wrong_disks(facts, needs_disks(facts)):
        raise Invalid(why)
    if host is not None:
        await check_target(cloud, server, facts, host)
        await _check_network(cloud, server, host)
    elif zone is not None:
        await check_zone(cloud, server, facts)
    return facts


async def plan_live(cloud: Cloud, server: Server, facts: MoveFacts) -> DecisionTrace | str:
    """Return the decision trace of a live migration with these facts, or why it ends before hosts are chosen.

    Raises: Unavailable.
    """
    try:
        return await plan(cloud, server, await examined(facts, server.id, cloud))
    except (Refused, NotFound) as no:
        return no.reason


async def abort(cloud: Cloud, engine: Engine, requester: Requester, server: Server, run: Run) -> None:
    """Request that a live migration be undone, unless its guest has switched over. The server stays where it is.

    Returns when the request is recorded. Raises: Conflict: it is over, or past its switch-over; Unavailable.
    """
    for _ in range(_TRIES):
        run = await _under_way(cloud, run)
        if run.verdict == "revert" or run.turned == "asked":
            return
        try:
            if run.at == transfer.__name__:
                await _record_request(cloud, engine, requester, server, run, "live_migration_cancel")
            else:
                await turn_back(cloud, engine, run.id)
                await cloud.journal.add_action(new_action(cloud, requester, server, "live_migration_cancel", run.id))
        except Conflict:
            continue  # it has advanced: read it again
        return
    raise Conflict(f"Live migration {run.id} of server {server.id} stands at {run.at}: it can only go on.")


async def force_complete(cloud: Cloud, engine: Engine, requester: Requester, server: Server, run: Run) -> None:
    """Request that a transfer switch over at once: by post-copy if its policy allows it, else the guest is paused.

    Returns when the request is recorded. Raises: Conflict: it is not at its transfer; Unavailable.
    """
    run = await _under_way(cloud, run)
    if run.verdict == "confirm":
        return
    if run.at != transfer.__name__:
        raise Conflict(
            f"Live migration {run.id} stands at {run.at}: only one that transfers its guest can be completed now."
        )
    await _record_request(cloud, engine, requester, server, run, "live_migration_force_complete")


# Inside


async def _check_network(cloud: Cloud, server: Server, host: HostName) -> None:
    """Raises: Invalid: the cell of the host does not share a migration network with that of the server."""
    fleet = await cloud.fleets.now()
    source = fleet.cells.get(server.cell) if server.cell else None
    target = fleet.cells.get(fleet.hosts[fleet.row[host]].cell) if host in fleet.row else None
    if source and target and not source.transfers_to(target):
        raise Invalid(
            f"Compute host {host} is in cell {target.name}, which does not share a migration network with cell"
            f" {source.name}: servers are not migrated live between them."
        )


async def _under_way(cloud: Cloud, run: Run) -> Run:
    run = await cloud.journal.get(run.id)
    if run.saga != LIVE_MIGRATE.name:
        command = f"; when it waits for a verdict: openstack server resize confirm {run.subject}"
        waits = command if run.saga in MOVE_SAGAS else ""
        raise Invalid(f"Run {run.id} is no live migration, but a {run.saga}, and completes by itself{waits}")
    if run.is_over:
        raise Conflict(f"Live migration {run.id} is over: it is {run.status}.")
    if run.way == "back" and run.turned != "asked":
        raise Conflict(f"Live migration {run.id} is being undone already.")
    return run


async def _record_request(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, run: Run, name: str
) -> None:
    """Record what was requested, for the step that transfers the guest. Raises: Conflict: it is not at that step."""
    action = new_action(cloud, requester, server, name, run.id)
    verdict: Verdict = "revert" if name == "live_migration_cancel" else "confirm"
    await cloud.journal.give_verdict(run.id, verdict, run.status, action, cloud.clock.now(), (transfer.__name__,))
    engine.wake_conductor()
