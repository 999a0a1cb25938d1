"""The actions on a server: one action per request, its events taken from the log of its run.

Details of events are for administrators, as in Nova. The summary of a choice of hosts names no host, so its owner
sees it too: it is in the message of the action, when that one is shown.

Source: reference of Nova 34, section 1.0.5.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from whimbrel.api.http import paging, times
from whimbrel.api.http.call import Call
from whimbrel.api.views.server import host_id
from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import RunId, ServerId
from whimbrel.domain.run import Action, LogEntry, Run
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.steps.target import choose_target
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.scheduling.decision import from_bytes

_CHOICE = choose_target.__name__


class Event(msgspec.Struct, kw_only=True):
    """Consecutive steps of one run under one name."""

    name: str
    host: str | None
    started_at: float
    finished_at: float | None
    result: str | None = "Success"  # None: in progress
    details: str | None = None
    traceback: str | None = None


async def index(call: Call) -> Any:
    since, before = times.span(call.value("changes-since"), call.value("changes-before"))
    runs = await _runs(call)
    actions = [action for action in await _actions(call) if _is_within(_changed_at(action, runs), since, before)]
    if call.minor < 58:
        return {"instanceActions": [_shown(call, action, runs) for action in actions]}
    actions = paging.after_marker(call, actions, lambda action: action.request_id)[: paging.limit(call)]
    links = paging.next_link(call, len(actions), actions[-1].request_id if actions else None)
    body: dict[str, Any] = {"instanceActions": [_shown(call, action, runs) for action in actions]}
    return body | ({"links": links} if links else {})


async def show(call: Call) -> Any:
    request_id = call.params["request_id"]
    action = next((action for action in await _actions(call) if action.request_id == request_id), None)
    if action is None:
        raise NotFound(f"Action {request_id} not found")
    runs = await _runs(call)
    run = runs.get(action.run_id) if action.run_id else None
    summaries = await _summaries(call, run) if run else {}
    shown = _shown(call, action, runs)
    if run:
        shown["message"] = _noted(_message(action, run, summaries, _failure(call, action, run)), action)
    target = await call.route.target(call)
    everything = call.may("os_compute_api:os-instance-actions:events", target)
    details = call.minor >= 84 and call.may("os_compute_api:os-instance-actions:events:details", target)
    if everything or call.minor >= 51:
        listed = events(call, action, run, summaries) if run else []
        shown["events"] = [
            await _event(call, action, event, everything=everything, details=details) for event in listed
        ]
    return {"instanceAction": shown}


async def _summaries(call: Call, run: Run) -> Mapping[tuple[str, float], str]:
    """Return the summaries of a run's choices of hosts, by step and start time."""
    evidence = await call.cloud.journal.evidence(run.id)
    return {(each.step, each.at): from_bytes(each.document).summary() for each in evidence}


def _message(action: Action, run: Run, summaries: Mapping[tuple[str, float], str], message: str | None) -> str | None:
    """Add to a message the summary of an action's last choice of a host, unless another step failed."""
    choices = [entry for entry in run.log if entry.action == action.request_id and entry.step == _CHOICE]
    if not choices:
        return message
    was_refused = choices[-1].outcome == "refused"
    summary = summaries.get((_CHOICE, choices[-1].began)) or (choices[-1].detail if was_refused else None)
    if message is None:
        return summary
    return f"{message}: {summary}" if was_refused and summary else message


async def _actions(call: Call) -> list[Action]:
    return await call.cloud.journal.actions(ServerId(call.params["server_id"]))


async def _runs(call: Call) -> Mapping[RunId, Run]:
    found = await call.cloud.journal.find(RunFilter(subject=ServerId(call.params["server_id"])))
    return {run.id: run for run in found}


def _is_within(at: float, since: float | None, before: float | None) -> bool:
    return (since is None or at >= since) and (before is None or at <= before)


def _changed_at(action: Action, runs: Mapping[RunId, Run]) -> float:
    run = runs.get(action.run_id) if action.run_id else None
    if run is None:
        return action.updated_at or action.started_at
    ends = [entry.began + entry.took_s for entry in run.log if entry.action == action.request_id]
    return max(ends, default=action.updated_at or action.started_at)


def _shown(call: Call, action: Action, runs: Mapping[RunId, Run]) -> dict[str, Any]:
    run = runs.get(action.run_id) if action.run_id else None
    shown = {
        "action": action.name,
        "instance_uuid": action.server_id,
        "request_id": action.request_id,
        "user_id": action.user_id,
        "project_id": action.project_id,
        "start_time": times.with_fraction(action.started_at),
        "message": _noted(_failure(call, action, run), action),
    }
    if call.minor >= 58:
        shown["updated_at"] = times.with_fraction(_changed_at(action, runs))
    return shown


def _failure(call: Call, action: Action, run: Run | None) -> str | None:
    """Return Nova's word for an action that failed; None: it did not fail."""
    failed = run is not None and any(event.result == "Error" for event in events(call, action, run))
    return "Error" if failed else None


def _noted(message: str | None, action: Action) -> str | None:
    """Add the note that was recorded with the action."""
    if message and action.message:
        return f"{message.removesuffix('.')}. {action.message}"
    return message or action.message


# Events


def events(
    call: Call, action: Action, run: Run, summaries: Mapping[tuple[str, float], str] = MappingProxyType({})
) -> list[Event]:
    """Group the steps of an action's run by the event names of users.

    summaries: details of successful steps, by step and start time.
    """
    found: list[Event] = []
    for entry in run.log:
        if entry.action == action.request_id and entry.event:
            _add(found, entry, run, summaries.get((entry.step, entry.began)))
    _add_present(call, found, action, run)
    return found


def _add(found: list[Event], entry: LogEntry, run: Run, summary: str | None) -> None:
    last = found[-1] if found else None
    if last is None or last.name != entry.event:
        assert entry.event, "only named steps are shown"
        last = Event(name=entry.event, host=_host(entry.event, run), started_at=entry.began, finished_at=None)
        found.append(last)
    last.finished_at = entry.began + entry.took_s
    if entry.outcome in ("refused", "debt"):
        last.result, last.details = "Error", entry.detail
    elif summary:
        last.details = summary


def _add_present(call: Call, found: list[Event], action: Action, run: Run) -> None:
    """Add the step in progress as an event without an end."""
    if run.state != "open" or run.action != action.request_id or run.is_foreign:
        return
    steps = call.engine.registry.of(run).steps
    step = next((step for step in steps if step.name == run.at), None)
    if step is None:
        return
    name = step.event if run.way == "forward" else (step.undo_event if run.turned == "reverted" else None)
    if name is None:
        return
    if not found or found[-1].name != name:
        found.append(Event(name=name, host=_host(name, run), started_at=run.since, finished_at=None))
    found[-1].finished_at = None
    found[-1].result = "Error" if run.problem else None
    found[-1].traceback = run.problem


# Events that happen on the source of a move; those of the conductor have no host, all others are on the target.
_ON_SOURCE = frozenset(
    {
        *("compute_resize_instance", "compute_confirm_resize", "compute_finish_revert_resize"),
        *("compute_check_can_live_migrate_source", "compute_live_migration"),
    }
)
_NOWHERE = ("conductor_", "cold_migrate", "get_image_info", "schedule_instances")


def _host(name: str, run: Run) -> str | None:
    """Return the host of an event of this name, or None."""
    if name.startswith(_NOWHERE):
        return None
    facts = run.facts
    if not isinstance(facts, MoveFacts):
        host: str | None = getattr(facts, "host", None)
        return host
    place = facts.source if name in _ON_SOURCE else facts.target
    return place.host if place else None


async def _event(call: Call, action: Action, event: Event, *, everything: bool, details: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "event": event.name,
        "start_time": times.with_fraction(event.started_at),
        "finish_time": times.with_fraction(event.finished_at),
        "result": event.result,
    }
    if everything:
        shown["traceback"] = event.traceback
    if call.minor >= 62:
        if everything:
            shown["host"] = event.host or ""
        shown["hostId"] = host_id(action.project_id, event.host)
    if details:
        shown["details"] = event.details
    return shown
