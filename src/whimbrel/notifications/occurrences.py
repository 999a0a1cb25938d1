"""What happened in a run, from its row in the journal alone: the events after each entry of its log, in order.

Invariant: the events of an entry depend on the entries up to it only. So they do not change while a run goes on, and
are the same whenever and by whomever they are derived.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import LogEntry, Run
from whimbrel.history.state_at import ServerState, states_during
from whimbrel.moves.facts import MoveFacts
from whimbrel.notifications.announced_steps import ANNOUNCED, AS_NOW, AS_REQUESTED, FIRST_TASK, Announced, Event
from whimbrel.saga.step import Saga

UPDATE = Event(name="instance.update")


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a server, with its state then."""

    event: Event
    entry: int  # index in the log of its run
    at: float  # seconds since 1970
    request_id: str
    state: ServerState
    task_state: str | None
    flavor: Flavor | None  # None: that of its record
    publisher: HostName | None  # the host of the compute service; None: unknown, or another service
    fault: tuple[str, str] | None = None  # the step that was refused, and why
    was: tuple[str | None, str | None] | None = None  # vm_state and task_state before; of an update


Updates = Literal["none", "vm_state", "vm_and_task_state"]
"""The changes that are events too, as instance.update."""


def occurrences(run: Run, saga: Saga, updates: Updates = "none") -> list[Occurrence]:
    """Return the events of a run."""
    announced = ANNOUNCED.get(run.saga)
    return list(_Reader(run, saga, announced or Announced(after={}), updates).read())


class _Reader:
    """Reads a log from its beginning."""

    def __init__(self, run: Run, saga: Saga, announced: Announced, updates: Updates) -> None:
        self._run = run
        self._saga = saga
        self._announced = announced
        self._updates = updates
        self._states = states_during(run)
        self._index = {step.name: number for number, step in enumerate(saga.steps)}
        self._at = -1  # the last step that was passed forwards
        self._tried = 0  # targets that refused
        self._begun = False  # whether the present attempt was announced
        self._turned: str | None = None  # why the run goes back: "reverted" or "failed"
        self._fault = ("", "")  # the step that failed last, and why
        self._task: str | None = None
        self._vm_state = self._states[0].vm_state

    def read(self) -> Iterator[Occurrence]:
        for number, entry in enumerate(self._run.log):
            if entry.step in self._index:
                yield from self._of_entry(number, entry)

    def _of_entry(self, number: int, entry: LogEntry) -> Iterator[Occurrence]:
        if entry.way == "do" and entry.outcome == "done":
            events = self._passed(entry)
        elif entry.way == "do":
            events = self._turn(entry)
        else:
            events = self._undone(entry)
        task = self._task_after(entry)
        state = self._states[number + 1]
        if self._is_update(state.vm_state, task):
            yield self._occurrence(UPDATE, number, entry, task, was=(self._vm_state, self._task))
        self._task, self._vm_state = task, state.vm_state
        for event in events:
            if event.only_if is None or event.only_if(self._run.facts):
                fault = self._fault if event.name.endswith(".error") else None
                yield self._occurrence(event, number, entry, self._task_of(event), fault=fault)
        self._tried += entry.way == "do" and entry.outcome == "refused"

    def _passed(self, entry: LogEntry) -> list[Event]:
        """Return the events of this step, and of those that were skipped before it."""
        here, is_another_attempt = self._index[entry.step], self._turned is not None
        first = here if is_another_attempt else self._at + 1
        self._at, self._turned = here, None
        steps = self._saga.steps[first : here + 1]
        events = [event for step in steps for event in self._of_step(step.name)]
        self._begun = self._begun or not all(event.is_prelude for event in events)
        return [event for event in events if not (event.is_prelude and is_another_attempt)]

    def _of_step(self, name: str) -> Sequence[Event]:
        confirmed = self._announced.confirmed.get(name, ()) if self._run.verdict == "confirm" else ()
        return (*confirmed, *self._announced.after.get(name, ()))

    def _turn(self, entry: LogEntry) -> list[Event]:
        if entry.outcome == "asked" and self._saga.step(entry.step).parks:
            self._turned = "reverted"
            return list(self._announced.reverted)
        if self._saga.step(entry.step).in_request and not self._begun:
            self._turned = "failed"
            return []  # the requester was told
        self._fault = entry.step, entry.detail or ""
        cancelled = self._announced.cancelled if entry.outcome == "asked" and self._begun else ()
        return [*cancelled, *self._failed()]

    def _failed(self) -> list[Event]:
        self._turned = "failed"
        events = self._announced.failed if self._begun else self._announced.unbegun
        if self._saga.name in BEGINS_LATER and self._at < self._index[BEGINS_LATER[self._saga.name]]:
            events = self._announced.unbegun
        self._begun = False
        return list(events)

    def _undone(self, entry: LogEntry) -> list[Event]:
        events: list[Event] = []
        if self._turned is None:  # turned back by an operator, without an entry
            self._fault = entry.step, "an operator turned it back"
            waited = any(step.parks for step in self._saga.steps[: self._at + 2])
            cancelled = self._announced.cancelled if self._begun else ()
            events = [*cancelled, *self._failed()] if not waited else list(self._announced.reverted)
            self._turned = "reverted" if waited else "failed"
        if entry.outcome == "done" and self._turned == self._announced.undone_only_if:
            events += self._announced.undone.get(entry.step, ())
        return events

    def _is_update(self, vm_state: str | None, task: str | None) -> bool:
        if vm_state != self._vm_state:
            return self._updates != "none"
        return self._updates == "vm_and_task_state" and task != self._task

    # The state then

    def _task_of(self, event: Event) -> str | None:
        if event.task == AS_NOW:
            return self._task
        if event.task != AS_REQUESTED:
            return event.task
        facts = self._run.facts
        return facts.shows if isinstance(facts, OperationFacts) else None

    def _task_after(self, entry: LogEntry) -> str | None:
        """Return the task state that the record shows after an entry."""
        step, facts = self._saga.step(entry.step), self._run.facts
        locks = step is self._first
        if entry.way == "undo":
            return None if locks else self._task
        if entry.outcome != "done":
            return "resize_reverting" if self._turned == "reverted" else self._task
        if entry.step in RELEASES or step is self._saga.steps[-1] or step.unlocks:
            return None
        if locks:
            return facts.shows if isinstance(facts, OperationFacts) else FIRST_TASK.get(self._run.saga)
        if entry.step == "mark_shelved" and isinstance(facts, OperationFacts) and facts.offloads:
            return "shelving_offloading"
        return step.shows or SHOWS.get((self._run.saga, entry.step), self._task)

    @property
    def _first(self) -> object:
        """Return the step that locks the server."""
        return next(step for step in self._saga.steps if step.in_turn or not step.accepted)

    def _occurrence(
        self,
        event: Event,
        number: int,
        entry: LogEntry,
        task: str | None,
        *,
        fault: tuple[str, str] | None = None,
        was: tuple[str | None, str | None] | None = None,
    ) -> Occurrence:
        facts, state = self._run.facts, self._states[number + 1]
        if isinstance(facts, OperationFacts) and state.vm_state in (None, "deleted"):
            # It is in no cell, or deleted: Nova's deleted servers keep their host.
            state = replace(state, vm_state=state.vm_state or facts.was, cell=facts.cell, host=facts.host)
        flavor = state.flavor
        if event.shows_new_flavor and isinstance(facts, MoveFacts):
            flavor = facts.new_flavor
        return Occurrence(
            event=event,
            entry=number,
            at=entry.began + entry.took_s,
            request_id=entry.action or self._run.action,
            state=state,
            task_state=task,
            flavor=flavor,
            publisher=self._host(event),
            fault=fault,
            was=was,
        )

    def _host(self, event: Event) -> HostName | None:
        facts = self._run.facts
        if isinstance(facts, OperationFacts):
            return facts.host if event.by in ("source", "target") else None
        if not isinstance(facts, MoveFacts) or event.by not in ("source", "target"):
            return None
        if event.by == "source" and facts.source:
            return facts.source.host
        if self._tried < len(facts.tried):
            return facts.tried[self._tried]
        return facts.target.host if facts.target else None


BEGINS_LATER = {"evacuate": "claim_target"}
"""Saga -> the step before which a failure is one of the scheduling, although something was announced."""

SHOWS = {("create", "place"): "spawning"}
"""Steps that set a task state themselves: (saga, step) -> it."""

RELEASES = frozenset({"switch_home", "close_record"})
"""Steps after which the record shows no task, although the run goes on."""


def merged(histories: Sequence[Sequence[Occurrence]]) -> list[tuple[int, Occurrence]]:
    """Return the events of several runs of a server in the order of time, each with the number of its history.

    The order within a history stays, whatever its clocks say.
    """
    keyed: list[tuple[float, int, int, Occurrence]] = []
    for number, history in enumerate(histories):
        latest = 0.0
        for place, each in enumerate(history):
            latest = max(latest, each.at)
            keyed.append((latest, number, place, each))
    return [(number, each) for _, number, _, each in sorted(keyed, key=lambda key: key[:3])]
