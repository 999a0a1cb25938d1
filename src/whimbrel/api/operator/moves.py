"""Moves: state, direction, every step and its reason. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/moves.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from whimbrel.api.http import paging
from whimbrel.api.http.call import Call
from whimbrel.api.operator.decisions import shown
from whimbrel.api.schemas.parameters import truth_of_word
from whimbrel.api.views.decisions import StepDecision
from whimbrel.api.views.moves import Decider, Decisions, Export, Move, MoveAnswer, MoveRow, Moves
from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import RunId, ServerId
from whimbrel.domain.run import Action, Run
from whimbrel.moves import journal_export as exports
from whimbrel.moves import requests
from whimbrel.moves.facts import MoveFacts, crosses_cells
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.step import Saga, applies
from whimbrel.scheduling.decision import from_bytes

MOST_SHOWN = 50
"""Maximum number of hosts in the representation of a move; its decisions have more."""


async def index(call: Call) -> Moves:
    """List moves, the newest first. open: only those in progress; kind=any: creates, deletes and power too.

    id_prefix: only ids with this prefix.
    """
    server = call.value("server") or call.value("server_id")
    which = RunFilter(
        sagas=None if call.value("kind") == "any" else sorted(MOVE_SAGAS),
        subject=ServerId(server) if server else None,
        id_prefix=call.value("id_prefix"),
        only_open=truth_of_word(call.value("open") or ""),
        limit=paging.limit(call),
    )
    return Moves(msgspec.convert([_fields(run) for run in await call.cloud.journal.find(which)], list[MoveRow]))


async def show(call: Call) -> MoveAnswer:
    return await answer(call, await call.cloud.journal.get(RunId(call.params["move_id"])))


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
    """Roll back an open move."""
    run = await requests.turn_back(call.cloud, call.engine, RunId(call.params["move_id"]))
    await _note(call, run, "turn_back")
    return await answer(call, run)


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
    more = {
        "request_id": run.action,
        "steps": [asdict(entry) | {"request_id": entry.action} for entry in run.log],
        "ahead": [] if run.is_foreign else _ahead(call.engine.registry.of(run), run),
        "summary": summary,
        "considered": considered,
        "facts": msgspec.to_builtins(run.facts),
    }
    return MoveAnswer(msgspec.convert(_fields(run) | more, Move))


def _fields(run: Run) -> dict[str, Any]:
    """Return the fields of a row; views ignore those that they do not have."""
    facts = run.facts if isinstance(run.facts, MoveFacts) else None
    source, target = (facts.source, facts.target) if facts else (None, None)
    return asdict(run) | {
        "server_id": run.subject,
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
