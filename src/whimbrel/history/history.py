"""The history of a server: every request, choice, step, undo and debt, as one list of events.

Invariant: it is read from the journal alone, which outlives records and hosts; so it exists for deleted servers too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from whimbrel.domain.ids import ProjectId, RunId, ServerId, UserId
from whimbrel.domain.run import Action, LogEntry, Run, Verdict
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import Evidence, RunFilter, Takeover
from whimbrel.repair.facts import RepairFacts

Kind = Literal["asked", "verdict", "agreed", "step", "choice", "debt", "paid", "takeover", "trouble", "ended"]

VERDICTS: Mapping[str, Verdict] = {"confirmResize": "confirm", "revertResize": "revert"}
"""Actions that are verdicts on a parked run."""


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """The journal's rows of one server."""

    actions: Sequence[Action]  # oldest first
    runs: Sequence[Run]  # oldest first
    choices: Mapping[RunId, Sequence[Evidence]] = {}
    takeovers: Sequence[Takeover] = ()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One event."""

    at: float  # seconds since 1970
    kind: Kind
    what: str  # the action, the step, or how it ended
    run_id: RunId | None = None
    saga: str | None = None
    request_id: str | None = None
    user_id: UserId | None = None  # the requester
    project_id: ProjectId | None = None
    way: Literal["do", "undo"] | None = None
    outcome: str | None = None
    took_s: float | None = None
    detail: str | None = None  # as reported by the step: may name hosts
    choice: Evidence | None = None
    takeover: Takeover | None = None


async def past_of(cloud: Cloud, server_id: ServerId) -> Past:
    """Read all that the journal has of a server, deleted or not."""
    runs = list(reversed(await cloud.journal.find(RunFilter(subject=server_id))))
    choices = {run.id: found for run in runs if (found := await cloud.journal.evidence(run.id))}
    return Past(
        actions=list(reversed(await cloud.journal.actions(server_id))),
        runs=runs,
        choices=choices,
        takeovers=await cloud.journal.takeovers(server_id),
    )


def events_of(past: Past) -> list[Entry]:
    """Return the events, oldest first; events with the same time stay in the order of their run."""
    events = [entry for run in past.runs for entry in _events_of_run(run, past)]
    known = {run.id for run in past.runs}
    events += [_asked(action, None) for action in past.actions if action.run_id not in known]
    return sorted(events, key=lambda entry: entry.at)


def _events_of_run(run: Run, past: Past) -> Iterator[Entry]:
    """Yield the events of one run: a request precedes the steps that serve it, a choice follows its step."""
    asked = {action.request_id: action for action in past.actions if action.run_id == run.id}
    yield from (_asked(asked.pop(id), run.saga) for id in list(asked) if asked[id].name not in VERDICTS)
    yield from _agreed(run, past)
    choices = list(past.choices.get(run.id, ()))
    owed: set[str] = set()
    for taken in run.log:
        if verdict := asked.pop(taken.action, None):
            yield _asked(verdict, run.saga)
        yield _step(run, taken, _kind(taken, owed))
        for each in [each for each in choices if (each.step, each.at) == (taken.step, taken.began)]:
            choices.remove(each)
            yield _choice(run, each)
    yield from (_asked(action, run.saga) for action in asked.values())
    yield from (_choice(run, each) for each in choices)
    yield from (_taken_over(each, run.saga) for each in past.takeovers if each.run_id == run.id)
    yield from _state(run)


def _asked(action: Action, saga: str | None) -> Entry:
    verdict = VERDICTS.get(action.name)
    return Entry(
        at=action.started_at,
        kind="verdict" if verdict else "asked",
        what=verdict or action.name,
        run_id=action.run_id,
        saga=saga,
        request_id=action.request_id,
        user_id=action.user_id,
        project_id=action.project_id,
        detail=action.message,
    )


def _agreed(run: Run, past: Past) -> Iterator[Entry]:
    """Yield the announced actions of a repair, after its request."""
    if isinstance(run.facts, RepairFacts):
        at = next((action.started_at for action in past.actions if action.run_id == run.id), run.created_at)
        for action in run.facts.agreed:
            yield Entry(at=at, kind="agreed", what=action.kind, run_id=run.id, saga=run.saga, detail=action.sentence)


def _step(run: Run, taken: LogEntry, kind: Kind) -> Entry:
    return Entry(
        at=taken.began,
        kind=kind,
        what=taken.step,
        run_id=run.id,
        saga=run.saga,
        request_id=taken.action or run.action,
        way=taken.way,
        outcome=taken.outcome,
        took_s=taken.took_s,
        detail=taken.detail,
    )


def _kind(taken: LogEntry, owed: set[str]) -> Kind:
    """Return the kind of a log entry; `owed` collects the debts so far."""
    if taken.outcome == "debt":
        owed.add(taken.step)
        return "debt"
    if taken.way == "undo" and taken.step in owed:
        owed.remove(taken.step)
        return "paid"
    return "step"


def _choice(run: Run, evidence: Evidence) -> Entry:
    return Entry(at=evidence.at, kind="choice", what=evidence.step, run_id=run.id, saga=run.saga, choice=evidence)


def _taken_over(takeover: Takeover, saga: str) -> Entry:
    run = takeover.run_id
    return Entry(at=takeover.at, kind="takeover", what="lease", run_id=run, saga=saga, takeover=takeover)


def _state(run: Run) -> Iterator[Entry]:
    """Yield how the run ended, or what blocks it."""
    if run.finished_at is not None:
        outcome = run.turned or run.state
        yield Entry(
            at=run.finished_at,
            kind="ended",
            what=run.state,
            run_id=run.id,
            saga=run.saga,
            request_id=run.action,
            outcome=outcome,
            took_s=run.finished_at - run.created_at,
            detail=run.message,
        )
    elif run.message or run.problem:
        yield Entry(
            at=run.updated_at,
            kind="trouble",
            what=run.at,
            run_id=run.id,
            saga=run.saga,
            request_id=run.action,
            detail=run.message or "it stopped at a bug",
        )
