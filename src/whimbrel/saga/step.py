"""Steps, and sagas as lists of steps.

Invariants: `do` may run twice, with the same result as running once. `undo` ensures that the effect is absent,
whether `do` ran, ran in part or never ran, and contacts every service in which `do` changes something. A step decides
(returns new facts, changes nothing) or acts (changes things, by recorded facts), never both; but a step that acts may
record the names that services assigned to what it created, provided that its undo works without them.

Renames: the journal stores steps by the name of their function: the position of a run (`at`), the undos it owes
(`debts`), what it did (`log`) and what it decided by. A renamed function lists its former names in `was`: rows
written under them are read under the new name, and are saved under it from then on. Without `was` a conductor
takes the run for one of a newer program and never drives it. During an upgrade the processes of the former release
treat rows saved under the new name in the same way.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeAlias

from msgspec.structs import fields, replace
from typing_extensions import TypeVar

from whimbrel.domain.run import Run
from whimbrel.ports.stores.journal import QuotaUsage

Facts = TypeVar("Facts", default=Any)
"""The facts of a saga's runs. The engine, which drives all sagas, leaves the type open."""


@dataclass(frozen=True)
class Decided(Generic[Facts]):
    """What a step wants written with the save after it, in the same transaction."""

    facts: Facts | None = None  # None: as before
    evidence: bytes | None = None  # for the decision; kept beside the run
    usage: QuotaUsage | None = None  # of the subject


Do: TypeAlias = Callable[[Run[Facts], Any], Awaitable[Facts | Decided[Facts] | None]]
"""async (run, world) -> new facts, plain or Decided, or None if it acted. Raises errors of domain.errors."""


@dataclass(frozen=True)
class Step(Generic[Facts]):
    do: Do[Facts]
    undo: Do[Facts] | None = None
    only_if: Callable[[Facts], bool] | None = None  # if false, the step is skipped
    after: tuple[Do[Facts], ...] = ()  # this undo waits for the undos of these steps
    again: Callable[[Facts], Facts | None] | None = None  # a choice: facts with the next alternate
    anew: Callable[[Run[Facts]], Facts | None] | None = None  # a choice without alternates: facts for a new one
    accepted: bool = False  # saved in one write with the run itself, which begins after it
    in_request: bool = False  # taken by the request before it is answered; after the accepted steps, before all others
    in_turn: bool = False  # a queued run waits here for its turn; this step takes the lock of the subject
    unlocks: bool = False  # releases the lock of the subject; if no step does, the last one
    idle: bool = False  # `do` does nothing: the step is there for its undo
    passive: bool = False  # changes nothing, except in the journal's own transaction: no save is needed before it
    settles: bool = False  # its `do` finds out whether the run goes on or back: only its refusal turns the run back
    parks: bool = False  # waits here for a verdict, without an owner
    waits: bool = False  # for something outside the cloud: no time-out turns it back, but an operator can
    status: str | None = None  # the status of the migration from here on
    shows: str | None = None  # the task state of the subject from here on
    event: str | None = None  # its name in the user's instance action events
    undo_event: str | None = None  # the name of its undo, if the user requested that
    was: tuple[str, ...] = ()  # former names of its function, which journal rows may still have

    @property
    def name(self) -> str:
        return self.do.__name__

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names of this step in the journal, the current one first."""
        return self.name, *self.was


@dataclass(frozen=True)
class Saga(Generic[Facts]):
    """A list of steps. A released list is frozen: change it by adding the next version beside it."""

    name: str
    version: int
    facts: type[Facts]
    undoable: tuple[Step[Facts], ...]
    forward_only: tuple[Step[Facts], ...] = ()
    done_status: str = "done"
    undone_status: str = "error"
    reverted_status: str = "reverted"
    secrets: tuple[str, ...] = ()  # facts that are reset when a run is over, however it ends; a.b: b of the fact a
    undone_as: Mapping[str, str] = field(default_factory=dict)  # why it turned back, or its status then -> at the end

    @cached_property
    def steps(self) -> tuple[Step[Facts], ...]:
        return self.undoable + self.forward_only

    @cached_property
    def _index(self) -> dict[str, int]:
        index = {step.name: number for number, step in enumerate(self.steps)}
        names = [name for step in self.steps for name in step.names]
        assert len(set(names)) == len(names), f"two steps of {self.name} have the same name"
        return index

    @cached_property
    def renamed(self) -> dict[str, str]:
        """Return former name -> current name of the renamed steps."""
        return {old: step.name for step in self.steps for old in step.was}

    def __contains__(self, name: str) -> bool:
        return name in self._index or name in self.renamed

    def step(self, name: str) -> Step[Facts]:
        return self.steps[self._index[name]]

    def may_turn_back(self, name: str) -> bool:
        """Check whether a run at this step may be turned back by a request or a time-out."""
        return self._index[name] < len(self.undoable) and not self.step(name).settles

    def status_undone(self, run: Run) -> str:
        """Return the status of a run that has been undone."""
        if run.turned == "reverted":
            return self.reverted_status
        if not any(entry.way == "do" and entry.outcome == "done" for entry in run.log):
            return self.undone_status  # it never got past the request
        return self.undone_as.get(run.turned or "", self.undone_as.get(run.status, self.undone_status))

    def holds_lock(self, run: Run) -> bool:
        """Check whether a run at its current step certainly holds the lock of its subject.

        The step that is taken in turn, else the first of the request, takes the lock. At that step and at the one that
        unlocks, it may or may not.
        """
        if run.at not in self._index:
            return False
        lock = next(number for number, step in enumerate(self.steps) if step.in_turn or self._has_no_turn(step))
        unlock = next((number for number, step in enumerate(self.steps) if step.unlocks), len(self.steps) - 1)
        return lock < self._index[run.at] < unlock

    def without_secrets(self, run: Run[Facts]) -> Run[Facts]:
        """Return a run that is over with its secret facts reset to their defaults."""
        facts: Any = run.facts
        for path in self.secrets:
            facts = _without(facts, path.split("."))
        return run if facts is run.facts else replace(run, facts=facts)

    def _has_no_turn(self, step: Step[Facts]) -> bool:
        return step.in_request and not self.may_queue

    @cached_property
    def may_queue(self) -> bool:
        """Check whether runs of this list may wait for their turn behind other runs of their subject."""
        return any(step.in_turn for step in self.steps)

    def following(self, name: str, facts: Facts) -> Step[Facts] | None:
        """Return the next step that applies, None at the end."""
        return next((s for s in self.steps[self._index[name] + 1 :] if applies(s, facts)), None)

    def preceding(self, name: str, facts: Facts) -> Step[Facts] | None:
        """Return the previous step that applies, None at the top."""
        return next((s for s in reversed(self.steps[: self._index[name]]) if applies(s, facts)), None)

    def entrance(self, facts: Facts) -> Step[Facts]:
        """Return the step with which a run begins: the first that was not saved with the run when it was accepted."""
        return next(s for s in self.steps if not s.accepted and applies(s, facts))


def _without(value: Any, path: Sequence[str]) -> Any:
    """Return a struct or dictionary with the field at the path reset to its default, or removed."""
    name, *rest = path
    if isinstance(value, dict):
        return {key: held for key, held in value.items() if key != name}
    if rest:
        inner = getattr(value, name)
        return value if inner is None else replace(value, **{name: _without(inner, rest)})
    return replace(value, **{name: next(each.default for each in fields(value) if each.name == name)})


def applies(step: Step[Facts], facts: Facts) -> bool:
    return step.only_if is None or step.only_if(facts)


class SagaRegistry:
    """All sagas by name and version, so that a run continues on the list on which it began."""

    def __init__(self, *sagas: Saga) -> None:
        self._sagas = {(saga.name, saga.version): saga for saga in sagas}

    def of(self, run: Run) -> Saga:
        return self._sagas[run.saga, run.version]

    def facts_type(self, name: str, version: int) -> type:
        return self._sagas[name, version].facts

    def has_step(self, name: str, version: int, step: str) -> bool:
        """Check whether a list of steps has, or had, a step of this name. Raises: KeyError: there is no such list."""
        return step in self._sagas[name, version]

    def renamed(self, name: str, version: int) -> dict[str, str]:
        """Return former name -> current name of the renamed steps of a list; empty if there is no such list."""
        saga = self._sagas.get((name, version))
        return saga.renamed if saga else {}

    def newest(self, name: str, among: Collection[int] | None = None) -> Saga | None:
        """Return the newest version of a list. among: the permitted versions; None: any."""
        versions = (s for s in self._sagas.values() if s.name == name and (among is None or s.version in among))
        return max(versions, key=lambda saga: saga.version, default=None)

    def versions(self) -> dict[str, tuple[int, ...]]:
        """Return name -> versions."""
        found: dict[str, list[int]] = {}
        for name, version in sorted(self._sagas):
            found.setdefault(name, []).append(version)
        return {name: tuple(versions) for name, versions in found.items()}

    def __iter__(self) -> Any:
        return iter(self._sagas.values())
