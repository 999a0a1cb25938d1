"""The state of a server at a past time: location, flavor, vm_state. Read from the journal.

Invariant: a step counts from its completion. Changes outside of runs (an administrator set the state) are known from
what the next run found.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from math import inf

import msgspec
from msgspec.structs import replace

from whimbrel.domain import server_states
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, HostName, RunId
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import LogEntry, Run, has_facts
from whimbrel.history.history import Past
from whimbrel.moves.evacuation_facts import EvacuationFacts
from whimbrel.moves.facts import Location, MoveFacts
from whimbrel.moves.steps import evacuation, record, shelved
from whimbrel.repair import steps
from whimbrel.repair.actions import AdoptGuest
from whimbrel.repair.facts import RepairFacts
from whimbrel.servers import operation
from whimbrel.servers.lifecycle import create, delete, pausing, power, rebuild, rescue, shelve, soft_delete


class UnderWay(msgspec.Struct, frozen=True, kw_only=True):
    """An open run at that time, and its last completed step."""

    run_id: RunId
    saga: str
    step: str | None = None
    way: str | None = None


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """The state according to the journal. None: unknown, not yet or not any more."""

    vm_state: str | None = None  # None: the server did not exist yet
    cell: CellName | None = None
    host: HostName | None = None
    zone: str | None = None  # id
    flavor: Flavor | None = None
    under_way: tuple[UnderWay, ...] = ()


class _Change(msgspec.Struct, frozen=True):
    at: float
    make: Callable[[ServerState], ServerState]


def server_state_at(past: Past, at: float, vm_state_now: str | None) -> ServerState:
    """Return the state at that time. vm_state_now: from its record; None: there is no record any more."""
    changes = list(_settings(past, vm_state_now))
    changes += [change for run in past.runs for change in _changes(run)]
    state = ServerState()
    for change in sorted(changes, key=lambda change: change.at):
        if change.at <= at:
            state = change.make(state)
    under_way = tuple(_under_way(run, at) for run in past.runs if _is_under_way(run, at))
    return replace(state, under_way=under_way)


def states_during(run: Run) -> list[ServerState]:
    """Return the state that a run found, then the state after each entry of its log, as far as the run alone tells."""
    states, tried = [_found(ServerState(), run)], 0
    for entry in run.log:
        effect = EFFECTS.get((entry.step, entry.way)) if entry.outcome == "done" else None
        states.append(effect(states[-1], run, _target(run, tried)) if effect else states[-1])
        tried += entry.way == "do" and entry.outcome == "refused"
    return states


# Changes by runs


def _changes(run: Run) -> Iterator[_Change]:
    yield _Change(run.created_at, lambda before: _found(before, run))
    tried = 0
    for entry in run.log:
        effect = EFFECTS.get((entry.step, entry.way))
        if effect and entry.outcome == "done":
            yield _effect(effect, run, entry, tried)
        tried += entry.way == "do" and entry.outcome == "refused"


Effect = Callable[[ServerState, Run, Location | None], ServerState]


def _effect(effect: Effect, run: Run, entry: LogEntry, tried: int) -> _Change:
    target = _target(run, tried)
    return _Change(entry.began + entry.took_s, lambda before: effect(before, run, target))


def _target(run: Run, tried: int) -> Location | None:
    """Return the target of a run at that try; for an abandoned one only the host is known."""
    facts = run.facts
    if not isinstance(facts, MoveFacts) or facts.target is None:
        return None
    if tried >= len(facts.tried) or facts.tried[tried] == facts.target.host:
        return facts.target
    return replace(facts.target, host=facts.tried[tried])


def _found(before: ServerState, run: Run) -> ServerState:
    """Return the state that a run found at its start, when it had read the record."""
    facts = run.facts
    if isinstance(facts, OperationFacts) and facts.cell:
        return replace(before, cell=facts.cell, host=facts.host, vm_state=facts.was)
    if not isinstance(facts, MoveFacts):
        return before
    if facts.home:
        return replace(before, cell=facts.home.cell, host=None, vm_state=shelved.OFFLOADED, flavor=facts.new_flavor)
    if facts.source is None:
        return ServerState(vm_state="building", flavor=facts.new_flavor)
    return replace(_at(before, facts.source), vm_state=facts.was, flavor=facts.old_flavor)


def _at(before: ServerState, place: Location | None) -> ServerState:
    return replace(before, cell=place.cell, host=place.host, zone=place.zone) if place else before


def _moved(before: ServerState, run: Run, target: Location | None) -> ServerState:
    assert has_facts(run, MoveFacts)
    vm_state = server_states.after(run.facts.was, "moved")
    return replace(_at(before, target), vm_state=vm_state, flavor=run.facts.new_flavor)


def _moved_back(before: ServerState, run: Run, _: Location | None) -> ServerState:
    assert has_facts(run, MoveFacts)
    return replace(_at(before, run.facts.source), flavor=run.facts.old_flavor)


def _evacuated(before: ServerState, run: Run, _: Location | None) -> ServerState:
    assert has_facts(run, EvacuationFacts)
    return replace(before, vm_state=evacuation.state_after(run.facts))


def _as_it_was(before: ServerState, run: Run, _: Location | None) -> ServerState:
    facts = run.facts
    assert isinstance(facts, (MoveFacts, OperationFacts))
    return replace(before, vm_state=facts.was)


def _not_rebuilt(before: ServerState, run: Run, _: Location | None) -> ServerState:
    assert has_facts(run, rebuild.RebuildFacts)
    return replace(before, vm_state="error" if run.facts.is_root_at_risk else run.facts.was)


def _rebuilt(before: ServerState, run: Run, _: Location | None) -> ServerState:
    assert has_facts(run, MoveFacts)
    return replace(before, vm_state=server_states.after(run.facts.was, "rebuilt"))


def _placed(before: ServerState, _: Run, target: Location | None) -> ServerState:
    return _at(before, target)


def _displaced(before: ServerState, _run: Run, _target: Location | None) -> ServerState:
    return replace(before, cell=None, host=None, zone=None)


def _seen(before: ServerState, run: Run, _: Location | None) -> ServerState:
    assert has_facts(run, OperationFacts)
    return replace(before, vm_state=run.facts.was if power.is_as_recorded(run.facts) else "stopped")


def _deleted(before: ServerState, _run: Run, _target: Location | None) -> ServerState:
    return ServerState(vm_state="deleted", flavor=before.flavor)


def _adopted(before: ServerState, run: Run, _: Location | None) -> ServerState:
    """A repair sets the location in the record to that of the only guest."""
    assert has_facts(run, RepairFacts)
    for action in run.facts.of_kind(AdoptGuest):
        before = replace(before, cell=action.cell, host=action.host, zone=None)
    return before


def _shelved(before: ServerState, run: Run, _: Location | None) -> ServerState:
    assert has_facts(run, OperationFacts)
    return replace(before, vm_state=shelved.OFFLOADED, host=None) if run.facts.offloads else before


def _unshelved(before: ServerState, _: Run, target: Location | None) -> ServerState:
    return replace(_at(before, target), vm_state="active")


def _restored(before: ServerState, run: Run, _: Location | None) -> ServerState:
    assert has_facts(run, OperationFacts)
    return replace(before, vm_state=soft_delete.restored_state(run.facts))


def _to(vm_state: str) -> Effect:
    return lambda before, _run, _target: replace(before, vm_state=vm_state)


EFFECTS: Mapping[tuple[str, str], Effect] = {
    (create.place.__name__, "do"): _placed,
    (create.place.__name__, "undo"): _displaced,
    (create.activate.__name__, "do"): _to("active"),
    (create.greet.__name__, "undo"): _to("error"),
    (record.switch_home.__name__, "do"): _moved,
    (record.switch_home.__name__, "undo"): _moved_back,
    (record.await_verdict.__name__, "do"): _moved,  # again, if its revert gave up the source
    (record.move_home.__name__, "do"): _placed,
    (record.lock_migrating.__name__, "undo"): _as_it_was,
    (record.unlock_resized.__name__, "do"): _as_it_was,
    (record.lock.__name__, "undo"): _as_it_was,  # that of an operation has the same name
    (evacuation.arrive.__name__, "do"): _placed,
    (evacuation.unlock_evacuated.__name__, "do"): _evacuated,
    (power.settle_started.__name__, "do"): _to("active"),
    (power.settle_stopped.__name__, "do"): _to("stopped"),
    (power.settle_rebooted.__name__, "do"): _to("active"),
    (power.settle_as_seen.__name__, "do"): _seen,
    (pausing.settle_paused.__name__, "do"): _to("paused"),
    (pausing.settle_unpaused.__name__, "do"): _to("active"),
    (pausing.settle_suspended.__name__, "do"): _to("suspended"),
    (pausing.settle_resumed.__name__, "do"): _to("active"),
    (rescue.settle_rescued.__name__, "do"): _to("rescued"),
    (rescue.settle_unrescued.__name__, "do"): _to("active"),
    (soft_delete.settle_soft_deleted.__name__, "do"): _to("soft-delete"),
    (soft_delete.settle_restored.__name__, "do"): _restored,
    (rebuild.lock_rebuilding.__name__, "undo"): _not_rebuilt,
    (rebuild.unlock_rebuilt.__name__, "do"): _rebuilt,
    (shelve.mark_shelved.__name__, "do"): _to("shelved"),
    (shelve.settle_shelved.__name__, "do"): _shelved,
    (shelve.settle_unshelved.__name__, "do"): _to("active"),
    (shelved.record_host.__name__, "do"): _unshelved,
    (shelved.lock_shelved.__name__, "undo"): _to(shelved.OFFLOADED),
    (steps.adopt_guest.__name__, "do"): _adopted,
    (delete.close_record.__name__, "do"): _deleted,
    (delete.erase_entry.__name__, "do"): _deleted,
}
"""The steps that change the recorded state, and how. All others leave it unchanged."""

assert record.lock.__name__ == operation.lock.__name__, "one line of the table is for both"


# Changes by administrators


def _settings(past: Past, vm_state_now: str | None) -> Iterator[_Change]:
    """Yield the result of each reset of the state: what the next run found, or what the record has now. The result
    is unknown if another reset followed before the next run.
    """
    resets = [action for action in past.actions if action.name == "resetState"]
    for number, action in enumerate(resets):
        after = bisect_left(past.runs, action.started_at, key=lambda run: run.created_at)
        end = past.runs[after].created_at if after < len(past.runs) else inf
        if number + 1 < len(resets) and resets[number + 1].started_at < end:
            yield _reset(action.started_at, None)
        elif end == inf:
            yield _reset(action.started_at, vm_state_now)
        else:
            yield _reset(action.started_at, getattr(past.runs[after].facts, "was", None))


def _reset(at: float, vm_state: str | None) -> _Change:
    return _Change(at, lambda before: replace(before, vm_state=vm_state))


# Open runs


def _is_under_way(run: Run, at: float) -> bool:
    return run.created_at <= at and (run.finished_at is None or at < run.finished_at)


def _under_way(run: Run, at: float) -> UnderWay:
    taken = [entry for entry in run.log if entry.began + entry.took_s <= at]
    if not taken:
        return UnderWay(run_id=run.id, saga=run.saga)
    return UnderWay(run_id=run.id, saga=run.saga, step=taken[-1].step, way=taken[-1].way)
