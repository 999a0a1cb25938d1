"""Moves as they are: where each stands, which way it goes, every step that it took, and why. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/moves.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from whimbrel.api.http import paging
from whimbrel.api.http.call import Call
from whimbrel.api.operator.decisions import shown
from whimbrel.api.schemas.parameters import truth_of_word
from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import RunId, ServerId
from whimbrel.domain.run import Action, LogEntry, Run
from whimbrel.moves import journal_export as exports
from whimbrel.moves import requests
from whimbrel.moves.facts import MoveFacts, crosses_cells
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.step import Saga, applies
from whimbrel.scheduling.decision import from_bytes

MOST_SHOWN = 50
"""Hosts of which the page of a move tells; its decisions tell of more."""


async def index(call: Call) -> Any:
    """List moves, the newest first. open: only those in hand; kind=any: creates, deletes and power too.

    id_prefix: only those whose id begins so.
    """
    server = call.value("server") or call.value("server_id")
    which = RunFilter(
        sagas=None if call.value("kind") == "any" else sorted(MOVE_SAGAS),
        subject=ServerId(server) if server else None,
        id_prefix=call.value("id_prefix"),
        only_open=truth_of_word(call.value("open") or ""),
        limit=paging.limit(call),
    )
    return {"moves": [_brief(run) for run in await call.cloud.journal.find(which)]}


async def show(call: Call) -> Any:
    return {"move": await full(call, await call.cloud.journal.get(RunId(call.params["move_id"])))}


async def export(call: Call) -> Any:
    """Give a move's journal as one document, for `whimbrel sim replay`."""
    run = await call.cloud.journal.get(RunId(call.params["move_id"]))
    return {"export": msgspec.to_builtins(await exports.export(call.cloud, run))}


async def decisions(call: Call) -> Any:
    """Tell which hosts a run chose among each time it chose, and why; of any kind of run, a create too."""
    run = await call.cloud.journal.get(RunId(call.params["move_id"]))
    hosts = call.may("whimbrel:moves:decisions:hosts", {"project_id": run.project_id, "user_id": run.user_id})
    told = [
        {"step": each.step, **await shown(from_bytes(each.document), call.cloud.zones, hosts=hosts)}
        for each in await call.cloud.journal.evidence(run.id)
    ]
    message = run.message if hosts else None  # of whatever step failed: it may name a host
    head = {"id": run.id, "saga": run.saga, "server_id": run.subject, "state": run.state, "message": message}
    return {"move": head, "decisions": told}


async def project_of_run(call: Call) -> Mapping[str, str]:
    """Find whose server a run is about. Raises: NotFound: there is none, or it is another project's."""
    run = await call.cloud.journal.get(RunId(call.params["move_id"]))
    if run.project_id != call.caller.project_id and not call.is_admin:
        raise NotFound(f"no run {run.id}")  # as if it were not there
    return {"project_id": run.project_id, "user_id": run.user_id}


async def retry(call: Call) -> Any:
    """Have an open move tried again now."""
    run = await requests.retry(call.cloud, call.engine, RunId(call.params["move_id"]))
    await _note(call, run, "retry")
    return {"move": await full(call, run)}


async def turn_back(call: Call) -> Any:
    """Have an open move undone."""
    run = await requests.turn_back(call.cloud, call.engine, RunId(call.params["move_id"]))
    await _note(call, run, "turn_back")
    return {"move": await full(call, run)}


async def _note(call: Call, run: Run, word: str) -> None:
    """Write down in the server's history who said what of its move."""
    asker = call.asker
    action = Action(
        server_id=run.subject,
        request_id=asker.request_id,
        name=word,
        project_id=asker.project_id,
        user_id=asker.user_id,
        run_id=run.id,
        started_at=call.cloud.clock.now(),
    )
    await call.cloud.journal.add_action(action)


def _brief(run: Run) -> dict[str, Any]:
    """Show what a list needs. Times are seconds since 1970."""
    facts = run.facts
    is_move = isinstance(facts, MoveFacts)
    return {
        "id": run.id,
        "number": run.number,
        "saga": run.saga,
        "server_id": run.subject,
        "server_name": facts.name if is_move else None,
        "project_id": run.project_id,
        "user_id": run.user_id,
        "state": run.state,
        "status": run.status,
        "way": run.way,
        "turned": run.turned,
        "verdict": run.verdict,
        "at": run.at,
        "source": facts.source.host if is_move and facts.source else None,
        "target": facts.target.host if is_move and facts.target else None,
        "source_cell": facts.source.cell if is_move and facts.source else None,
        "target_cell": facts.target.cell if is_move and facts.target else None,
        "cross_cell": is_move and crosses_cells(facts),
        "old_flavor": facts.old_flavor.name if is_move and facts.old_flavor else None,
        "new_flavor": facts.new_flavor.name if is_move else None,
        "tries": run.tries,
        "debts": list(run.debts),
        "message": run.message,
        "problem": run.problem,
        "epoch": run.epoch,
        "owner": run.owner,
        "since": run.since,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "parked_at": run.parked_at,
        "finished_at": run.finished_at,
    }


async def full(call: Call, run: Run) -> dict[str, Any]:
    """Show all of a move. Zones in its facts are ids."""
    saga = call.engine.book.of(run)
    facts = run.facts
    return _brief(run) | {
        "version": run.version,
        "request_id": run.action,
        "due_at": run.due_at,
        "steps": [_step(entry) for entry in run.log],
        "ahead": _ahead(saga, run),
        **await _chosen_by(call, run),
        "facts": msgspec.to_builtins(facts),
    }


async def _chosen_by(call: Call, run: Run) -> dict[str, Any]:
    """Tell of its last choice in a sentence, and of the hosts that it was among, the best first."""
    evidence = await call.cloud.journal.evidence(run.id)
    if not evidence:
        return {"summary": None, "considered": []}
    record = from_bytes(evidence[-1].document)
    told = [
        {"host": one.host, "reason": one.reason.words if one.reason else None, "weight": one.weight}
        for one in record.considered[:MOST_SHOWN]
    ]
    return {"summary": record.summary(), "considered": told}


def _step(entry: LogEntry) -> dict[str, Any]:
    return {
        "step": entry.step,
        "way": entry.way,
        "began": entry.began,
        "took_s": entry.took_s,
        "outcome": entry.outcome,
        "detail": entry.detail,
        "event": entry.event,
        "request_id": entry.action,
    }


def _ahead(saga: Saga, run: Run) -> list[str]:
    """Name the lines that are still to be walked, the present one first."""
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
