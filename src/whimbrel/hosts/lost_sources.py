"""Ends moves on their way back to a host that never returns. An operator says so for each move.

Invariant: nothing is destroyed that may be all that is left of a server. If its guest is whole on the target, the
server stays there: the revert becomes a confirmation. If nothing of it is on the target, the move goes back without
the source, and its record names the dead host, from which it can be evacuated. Nothing else is decided here: disks on
the target that may be half a copy are left, and so is the move.
"""

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, NotFound, WorldError
from whimbrel.domain.evidence import Evidence
from whimbrel.domain.ids import RunId
from whimbrel.domain.run import LogEntry, Run, has_facts
from whimbrel.hosts.forgetting import evidence_of_unreachable
from whimbrel.moves.facts import Move, MoveFacts, crosses_cells, key_at, source_of, target_of
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.moves.steps import guest, home_cell, record
from whimbrel.ports.cloud import Cloud
from whimbrel.saga.engine import DEBTS, Engine


async def give_up_source(cloud: Cloud, engine: Engine, run_id: RunId) -> Run:
    """End a move that waits for its dead source on its way back. Return it as a conductor takes it up. Repeatable.

    Raises: NotFound; Conflict: it does not wait for that, its source is not proved to be dead, or its disks on the
    target may be all that is left; Unavailable: the target's agent does not answer.
    """
    found = await cloud.journal.get(run_id)
    if found.is_foreign or found.saga not in MOVE_SAGAS or not has_facts(found, MoveFacts):
        raise Conflict(f"{run_id} is no resize or cold migration of this release")
    if (found.state, found.way, found.at) != ("open", "back", DEBTS) or found.facts.source is None:
        raise Conflict(f"move {run_id} does not wait on its way back")
    source, target = source_of(found), target_of(found)
    if source.host == target.host:
        raise Conflict(f"move {run_id} stays on its host {source.host}")
    try:
        host = await cloud.cell(source.cell).hosts.get(source.host)
    except NotFound:
        raise Conflict(f"host {source.host} is no part of the cloud any more") from None
    evidence = await evidence_of_unreachable(cloud, host)
    move = await _taken(cloud, engine, found)
    try:
        ended = await _ended(cloud, move, evidence)
    except WorldError:
        await _hand_on(cloud, engine, move)
        raise
    return await _hand_on(cloud, engine, ended)


async def _taken(cloud: Cloud, engine: Engine, move: Move) -> Move:
    """Take a move from its conductor. It owes the undo of what is done here until that is saved."""
    owed = [record.switch_home.__name__, *([home_cell.copy_to_target.__name__] if crosses_cells(move.facts) else ())]
    debts = (*(name for name in owed if name not in move.debts), *move.debts)
    due_at = cloud.clock.now() + engine.lease_s
    taken = replace(move, epoch=move.epoch + 1, owner=engine.name, due_at=due_at, debts=debts)
    await cloud.journal.save(taken, raised=True)
    return taken


async def _hand_on(cloud: Cloud, engine: Engine, move: Move) -> Move:
    handed = replace(move, owner=None, due_at=0.0)
    await cloud.journal.save(handed)
    engine.ring()
    return handed


async def _ended(cloud: Cloud, move: Move, evidence: Evidence) -> Move:
    """Return the move as it goes on. Raises: Conflict; WorldError."""
    target = target_of(move)
    agent, key = guest.agent_at(cloud, target), key_at(move, target)
    await agent.unexport_disk(move.order, key)  # changes nothing there, but no earlier order is obeyed any more
    seen = await agent.look(key)
    if seen is None or not (seen.has_disk or seen.disks):
        return replace(move, facts=replace(move.facts, source_lost=evidence), tries=0, message=None)
    is_whole = seen.has_disk and seen.power not in ("reserved", "incoming")
    if not is_whole or move.turned != "reverted" or guest.start_on_target.__name__ not in move.debts:
        raise Conflict(
            f"The disks of move {move.id} on {target.host} may be all that is left of server {move.subject}, and may be"
            " incomplete: nothing is decided."
        )
    await record.switch_home_again(move, cloud)
    return _confirmed(cloud, move, evidence)


def _confirmed(cloud: Cloud, move: Move, evidence: Evidence) -> Move:
    """Return a reverted move as if it had been confirmed."""
    now, source = cloud.clock.now(), source_of(move)
    why = f"host {source.host} is lost ({evidence.kind}, by {evidence.origin}): the server stays where its guest is"
    entry = LogEntry(
        step=record.await_verdict.__name__,
        way="do",
        began=now,
        took_s=0.0,
        outcome="asked",
        detail=why,
        action=move.action,
    )
    return replace(
        move,
        facts=replace(move.facts, source_lost=evidence),
        way="forward",
        turned=None,
        verdict="confirm",
        at=guest.destroy_on_source.__name__,
        status="confirming",
        debts=(),
        tries=0,
        since=now,
        message=why,
        log=(*move.log, entry),
        updated_at=now,
    )
