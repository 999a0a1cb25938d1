"""Moves: state, direction, every step and its reason. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/moves.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict

from whimbrel.api.http import paging, times
from whimbrel.api.http.call import Call
from whimbrel.api.operator.decisions import shown
from whimbrel.api.schemas.parameters import truth_of_word
from whimbrel.api.views.decisions import StepDecision
from whimbrel.api.views.moves import (
    Decider,
    Decisions,
    Export,
    GuestHalf,
    GuestHalves,
    Ladder,
    LadderAnswer,
    Move,
    MoveAnswer,
    MoveRow,
    Moves,
    step_in_hand,
)
from whimbrel.domain.errors import NotFound, WorldError
from whimbrel.domain.ids import HostName, RunId, ServerId
from whimbrel.domain.run import Action, LogEntry, Run, has_facts
from whimbrel.history.step_sentences import SENTENCES, sentence_of
from whimbrel.hosts import lost_sources
from whimbrel.moves import journal_export as exports
from whimbrel.moves import live_requests, requests
from whimbrel.moves.facts import Location, MoveFacts, crosses_cells, key_at
from whimbrel.moves.live_progress import progress_of
from whimbrel.moves.migration_status import LIVE, MIGRATION_TYPES
from whimbrel.moves.steps.disk import carry_disk
from whimbrel.moves.steps.disk_copies import disk_copy_of
from whimbrel.moves.unshelve import UNSHELVE
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof import paged_reads
from whimbrel.saga.ladder import Rung, ladder
from whimbrel.saga.step import Saga, applies
from whimbrel.scheduling.decision import from_bytes
from whimbrel.servers import lookup

MOVES = sorted({*MIGRATION_TYPES, UNSHELVE.name})
"""The runs that change a server's host."""

ANSWERED_WITHIN_S = 3.0

MOST_SHOWN = 50
"""Maximum number of hosts in the representation of a move; its decisions have more."""


async def index(call: Call) -> Moves:
    """List moves, the newest first. open: only those in progress; kind=any: creates, deletes and power too.

    state: in one of these states. host: from or to this host. id_prefix: only ids with this prefix.
    """
    server = call.value("server") or call.value("server_id")
    which = RunFilter(
        sagas=None if call.value("kind") == "any" else MOVES,
        subject=ServerId(server) if server else None,
        id_prefix=call.value("id_prefix"),
        states=call.query.get("state"),
        changed_since=times.read(call.value("changes-since")),
        only_open=truth_of_word(call.value("open") or ""),
        limit=paging.limit(call),
    )
    host = call.value("host")
    found = await (_of_host(call, which, HostName(host)) if host else call.cloud.journal.find(which))
    return Moves(msgspec.convert([_fields(run) for run in found], list[MoveRow]))


async def _of_host(call: Call, which: RunFilter, host: HostName) -> list[Run]:
    """Return the newest of these runs that leave the host or go to it."""
    found: list[Run] = []
    async for run in paged_reads.runs(call.cloud, which):
        if len(found) == which.limit:
            break
        facts = run.facts if isinstance(run.facts, MoveFacts) else None
        if facts and host in (place.host for place in (facts.source, facts.target) if place):
            found.append(run)
    return found


async def show(call: Call) -> MoveAnswer:
    return await answer(call, await call.cloud.journal.get(RunId(call.params["move_id"])))


async def show_ladder(call: Call) -> LadderAnswer:
    """Return the steps of a run with their undos, and how far each is; for any kind of run."""
    run = await call.cloud.journal.get(RunId(call.params["move_id"]))
    rungs = [] if run.is_foreign else ladder(call.engine.registry.of(run), run)
    fields = _fields(run) | {"steps": [_rung(each) for each in rungs], "stopped": run.problem is not None}
    return LadderAnswer(msgspec.convert(fields, Ladder))


def _rung(rung: Rung) -> dict[str, Any]:
    """Return a line of a ladder, with the sentences of its step if there are some."""
    about, undo_about = SENTENCES.get(rung.step, (rung.about, rung.undo_about))
    return asdict(rung) | {"about": about, "undo_about": undo_about}


async def guests(call: Call) -> GuestHalves:
    """Return what the source and the target of a move have of its guest now, as their agents say."""
    run = await call.cloud.journal.get(RunId(call.params["move_id"]))
    if not has_facts(run, MoveFacts):
        return GuestHalves([])
    sides = (("source", run.facts.source), ("target", run.facts.target))
    return GuestHalves(await asyncio.gather(*(_half(call, run, side, place) for side, place in sides if place)))


async def _half(call: Call, run: Run[MoveFacts], side: str, place: Location) -> GuestHalf:
    try:
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            guest = await call.cloud.agent(place.cell, place.host).look(key_at(run, place))
    except (WorldError, TimeoutError):
        return GuestHalf(side=side, cell=place.cell, host=place.host, answers=False)
    disks: list[str] = [*guest.disks] if guest else []
    return GuestHalf(side=side, cell=place.cell, host=place.host, power=guest.power if guest else None, disks=disks)


async def export(call: Call) -> Export:
    """Return a move's journal as one document, for `whimbrel sim replay`."""
    run = await call.cloud.journal.get(RunId(call.params["move_id"]))
    return Export(msgspec.to_builtins(await exports.export(call.cloud, run)))


async def decisions(call: Call) -> Decisions:
    """Return the hosts that a run considered at each choice, and why; for any kind of run, creates too."""
    run = await call.cloud.journal.get(RunId(call.params["move_id"]))
    hosts = call.may("whimbrel:moves:decisions:hosts", {"project_id": run.project_id, "user_id": run.user_id})
    made = [
        StepDecision(**asdict(await shown(from_bytes(each.document), call.cloud.zones, hosts=hosts)), step=each.step)
        for each in await call.cloud.journal.evidence(run.id)
    ]
    message = run.message if hosts else None  # of any failed step, so it may name a host
    decider = Decider(id=run.id, saga=run.saga, server_id=run.subject, state=run.state, message=message)
    return Decisions(decider, made)


async def project_of_run(call: Call) -> Mapping[str, str]:
    """Return the project of a run's server. Raises: NotFound: no such run, or another project's."""
    run = await call.cloud.journal.get(RunId(call.params["move_id"]))
    if run.project_id != call.principal.project_id and not call.is_admin:
        raise NotFound(f"no run {run.id}")  # as if it did not exist
    return {"project_id": run.project_id, "user_id": run.user_id}


async def retry(call: Call) -> MoveAnswer:
    """Retry an open move now."""
    run = await requests.retry(call.cloud, call.engine, RunId(call.params["move_id"]))
    await _note(call, run, "retry")
    return await answer(call, run)


async def turn_back(call: Call) -> MoveAnswer:
    """Roll back an open move; a live migration is aborted."""
    run = await call.cloud.journal.get(RunId(call.params["move_id"]))
    if run.saga == LIVE:
        server = await lookup.find(call.cloud, run.subject)
        await live_requests.abort(call.cloud, call.engine, call.requester, server, run)
        return await answer(call, await call.cloud.journal.get(run.id))
    run = await requests.turn_back(call.cloud, call.engine, RunId(call.params["move_id"]))
    await _note(call, run, "turn_back")
    return await answer(call, run)


async def give_up_source(call: Call) -> MoveAnswer:
    """End a move that waits, on its way back, for a source that never returns. It has to be evident that it is dead."""
    run = await lost_sources.give_up_source(call.cloud, call.engine, RunId(call.params["move_id"]))
    await _note(call, run, "give_up_source")
    return await answer(call, run)


async def complete(call: Call) -> MoveAnswer:
    """Force a live migration to complete, by post-copy or by pausing the guest."""
    run = await call.cloud.journal.get(RunId(call.params["move_id"]))
    server = await lookup.find(call.cloud, run.subject)
    await live_requests.force_complete(call.cloud, call.engine, call.requester, server, run)
    return await answer(call, await call.cloud.journal.get(run.id))


async def _note(call: Call, run: Run, word: str) -> None:
    """Record the request in the server's history."""
    requester = call.requester
    action = Action(
        server_id=run.subject,
        request_id=requester.request_id,
        name=word,
        project_id=requester.project_id,
        user_id=requester.user_id,
        run_id=run.id,
        started_at=call.cloud.clock.now(),
    )
    await call.cloud.journal.add_action(action)


async def answer(call: Call, run: Run) -> MoveAnswer:
    """Return the representation of a move. Zones in its facts are ids."""
    summary, considered = await _last_choice(call, run)
    ahead = [] if run.is_foreign else _ahead(call.engine.registry.of(run), run)
    more = {
        "request_id": run.action,
        "steps": [_step_taken(entry) for entry in run.log],
        "ahead": ahead,
        "ahead_sentences": [sentence_of(step, _way_of(run)) for step in ahead],
        "summary": summary,
        "considered": considered,
        "transfer": await _transfer(call, run),
        "disk_copy": await _disk_copy(call, run),
        "facts": _shown_facts(run),
    }
    return MoveAnswer(msgspec.convert(_fields(run) | more, Move))


def _step_taken(entry: LogEntry) -> dict[str, Any]:
    return asdict(entry) | {"request_id": entry.action, "sentence": sentence_of(entry.step, entry.way)}


def _way_of(run: Run) -> Literal["do", "undo"]:
    return "do" if run.way == "forward" else "undo"


def _shown_facts(run: Run) -> Any:
    """Return the facts without passwords, and without the config drive, which has one."""
    facts = msgspec.to_builtins(run.facts)
    for holder in (facts, facts.get("changes", {})):
        holder.pop("admin_pass", None)
    ((facts.get("live") or {}).get("guest") or {}).pop("config_drive", None)
    return facts


def _fields(run: Run) -> dict[str, Any]:
    """Return the fields of a row; views ignore those that they do not have."""
    facts = run.facts if isinstance(run.facts, MoveFacts) else None
    source, target = (facts.source, facts.target) if facts else (None, None)
    return asdict(run) | {
        "server_id": run.subject,
        "doing": "" if run.is_over else sentence_of(step_in_hand(run.at, run.debts), _way_of(run)),
        "server_name": facts.name if facts else None,
        "source": source.host if source else None,
        "target": target.host if target else None,
        "source_cell": source.cell if source else None,
        "target_cell": target.cell if target else None,
        "cross_cell": facts is not None and crosses_cells(facts),
        "old_flavor": facts.old_flavor.name if facts and facts.old_flavor else None,
        "new_flavor": facts.new_flavor.name if facts else None,
    }


async def _last_choice(call: Call, run: Run) -> tuple[str | None, list[dict[str, Any]]]:
    """Return the summary of the last choice, and the hosts that were considered, the best first."""
    evidence = await call.cloud.journal.evidence(run.id)
    if not evidence:
        return None, []
    record = from_bytes(evidence[-1].document)
    return record.summary(), [
        {"host": one.host, "reason": one.reason.words if one.reason else None, "weight": one.weight}
        for one in record.considered[:MOST_SHOWN]
    ]


async def _transfer(call: Call, run: Run) -> dict[str, Any] | None:
    """Return the transfer of a live migration as it was last seen."""
    noted = (await progress_of(call.cloud, [run])).get(run.id) if run.saga == LIVE else None
    return asdict(noted.progress) | asdict(noted) if noted else None


async def _disk_copy(call: Call, run: Run) -> dict[str, Any] | None:
    """Return the copy of a disk that is under way."""
    if run.is_over or (run.at, run.way) != (carry_disk.__name__, "forward"):
        return None
    noted = await disk_copy_of(call.cloud, run)
    return asdict(noted) if noted else None


def _ahead(saga: Saga, run: Run) -> list[str]:
    """Return the names of the remaining steps, the present one first."""
    if run.is_over:
        return []
    line = [step for step in saga.steps if applies(step, run.facts)]
    names = [step.name for step in line]
    if run.at not in names:
        return list(run.debts)
    here = names.index(run.at)
    if run.way == "forward":
        return names[here:]
    return [step.name for step in reversed(line[: here + 1]) if step.undo is not None]
