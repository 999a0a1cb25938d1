"""Ends moves on their way back to a host that never returns. An operator says so for each move.

Invariant: nothing is destroyed that may be all that is left of a server. If its guest is whole on the target, the
server stays there: the revert becomes a confirmation. If nothing of it is on the target, the move goes back without
the source, and its record names the dead host, from which it can be evacuated. Nothing else is decided here: disks on
the target that may be half a copy are left, and so is the move.
"""

from contextlib import suppress

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, NotFound, Superseded, Unavailable, WorldError
from whimbrel.domain.evidence import Evidence
from whimbrel.domain.ids import RunId
from whimbrel.domain.run import LogEntry, Run, has_facts
from whimbrel.hosts.forgetting import evidence_of_unreachable, owes_undos
from whimbrel.moves.facts import Move, MoveFacts, changes_size, crosses_cells, key_at, source_of, target_of
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.moves.steps import guest, home_cell, record
from whimbrel.moves.steps.quota_usage import larger_of
from whimbrel.ports.cloud import Cloud
from whimbrel.saga.engine import Engine

TRIES = 5
"""How often a move is read again and taken, if its conductor has gone on in between."""


async def give_up_source(cloud: Cloud, engine: Engine, run_id: RunId) -> Run:
    """End a move that waits for its dead source on its way back. Return it as a conductor takes it up. Repeatable.

    Raises: NotFound; Conflict: it does not wait for that, its source is not proved to be dead, its disks on the target
    may be all that is left, a process of an older release is live, or a conductor works on the move at the moment;
    Unavailable: the target's agent does not answer, or all runs are held.
    """
    source = source_of(await _waiting(cloud, run_id))
    engine.check_heeded("source_lost")
    try:
        host = await cloud.cell(source.cell).hosts.get(source.host)
    except NotFound:
        raise Conflict(f"host {source.host} is no part of the cloud any more") from None
    evidence = await evidence_of_unreachable(cloud, host)
    try:
        move = await _taken(cloud, engine, run_id)
        try:
            ended = await _ended(cloud, move, evidence)
        except WorldError:
            await _hand_on(cloud, engine, move)
            raise
        return await _hand_on(cloud, engine, ended)
    except Superseded:
        raise Conflict(f"a conductor works on move {run_id} at the moment: repeat the command") from None


async def _waiting(cloud: Cloud, run_id: RunId) -> Move:
    """Return a move that waits, on its way back, for its source. Raises: NotFound; Conflict: it does not."""
    found = await cloud.journal.get(run_id)
    if found.is_foreign or found.saga not in MOVE_SAGAS or not has_facts(found, MoveFacts):
        raise Conflict(f"{run_id} is no resize or cold migration of this release")
    if not owes_undos(found) or found.facts.source is None:
        raise Conflict(f"move {run_id} does not wait on its way back")
    if found.facts.source.host == target_of(found).host:
        raise Conflict(f"move {run_id} stays on its host {found.facts.source.host}")
    return found


async def _taken(cloud: Cloud, engine: Engine, run_id: RunId) -> Move:
    """Take a move from its conductor, whose every try raises the epoch. Raises: Superseded: at each try."""
    for _ in range(TRIES - 1):
        with suppress(Superseded):
            return await _take(cloud, engine, await _waiting(cloud, run_id))
    return await _take(cloud, engine, await _waiting(cloud, run_id))


async def _take(cloud: Cloud, engine: Engine, move: Move) -> Move:
    """Take a move as it was read. It owes the undo of what is done here until that is saved.

    Its orders are of the present incarnation, also if this process has begun no run since a restore.
    Raises: Superseded; Unavailable: all runs are held.
    """
    state = await cloud.restores.state()
    if state.hold:
        raise Unavailable(f"All moves and operations are held: {state.hold.because}. See: whimbrel restore")
    owed = [record.switch_home.__name__, *([home_cell.copy_to_target.__name__] if crosses_cells(move.facts) else ())]
    debts = (*(name for name in owed if name not in move.debts), *move.debts)
    due_at = cloud.clock.now() + engine.lease_s
    taken = replace(move, epoch=move.epoch + 1, owner=engine.name, due_at=due_at, debts=debts)
    await cloud.journal.save(taken, raised=True)
    return replace(taken, incarnation=state.incarnation)


async def _hand_on(cloud: Cloud, engine: Engine, move: Move) -> Move:
    """Save a move for any conductor; if it was turned forward, with its verdict and the usage of both flavors."""
    handed = replace(move, owner=None, due_at=0.0)
    if move.way == "back":
        await cloud.journal.save(handed)
    else:
        usage = larger_of(move) if changes_size(move.facts) else None  # its undo was paid on the way back
        await cloud.journal.save(handed, usage=usage, verdict=move.verdict)
    engine.wake_conductor()
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
        outcome="done",
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
