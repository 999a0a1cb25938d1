"""A step and a line of steps: what a saga is made of.

Laws: `do` may run twice and ends in the same world as running once. `undo` makes sure that it is not so, whether `do`
ran, half ran or never ran, and knocks on every door behind which `do` changes something. A step decides (returns new
facts, touches nothing) or acts (touches, by recorded facts), never both; but one that acts may note the names which the
world gave to what it made, as long as its undo finds that without them.

Renames: the journal has steps by name, the name of their function: where a run stands (`at`), which undos it owes
(`debts`), what it did (`log`) and what it decided by. A renamed function lists its former names in `was`: rows that
were written under them are read under the new name, and have it from the next save on. Without it a conductor takes
the run for one of a newer program and leaves it alone for ever. While an upgrade is under way the processes of the
former release do the same with what has been saved under the new name.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

from whimbrel.domain.run import Run

Facts = TypeVar("Facts", default=Any)
"""What the runs of a saga know. The engine, which drives all sagas, leaves it open."""


@dataclass(frozen=True)
class Decided(Generic[Facts]):
    """New facts of a step that decides, and what it decided by: kept beside the run, for people who ask why."""

    facts: Facts
    evidence: bytes


Do: TypeAlias = Callable[[Run[Facts], Any], Awaitable[Facts | Decided[Facts] | None]]
"""async (run, world) -> new facts, plain or Decided, or None when it acted. Raises what domain.errors names."""


@dataclass(frozen=True)
class Step(Generic[Facts]):
    do: Do[Facts]
    undo: Do[Facts] | None = None
    only_if: Callable[[Facts], bool] | None = None  # where it is false the line is not there
    after: tuple[Do[Facts], ...] = ()  # this undo waits until the undos of these steps are done
    again: Callable[[Facts], Facts | None] | None = None  # a choice: with the next alternate, if any is left
    accepted: bool = False  # written down in one write with the run itself, which begins below it
    in_request: bool = False  # taken by the door before it answers; below the accepted lines, above all others
    unlocks: bool = False  # gives up the lock of the subject; without one the last line does
    parks: bool = False  # waits for a verdict here, holding nothing but its row
    status: str | None = None  # what a migration record shows from here on
    shows: str | None = None  # what the subject shows from here on
    event: str | None = None  # the name under which the user's history shows it
    undo_event: str | None = None  # the same for its undo, when the user asked for that
    was: tuple[str, ...] = ()  # former names of its function: rows of the journal may still have them

    @property
    def name(self) -> str:
        return self.do.__name__

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names under which the journal may have this step, the present one first."""
        return self.name, *self.was


@dataclass(frozen=True)
class Saga(Generic[Facts]):
    """A line of steps. A released line is frozen: change it by adding the next version beside it."""

    name: str
    version: int
    facts: type[Facts]
    undoable: tuple[Step[Facts], ...]
    forward_only: tuple[Step[Facts], ...] = ()
    done_status: str = "done"
    undone_status: str = "error"
    reverted_status: str = "reverted"

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
        """Return former name -> present name of the steps that were renamed."""
        return {old: step.name for step in self.steps for old in step.was}

    def __contains__(self, name: str) -> bool:
        return name in self._index or name in self.renamed

    def step(self, name: str) -> Step[Facts]:
        return self.steps[self._index[name]]

    def may_turn_back(self, name: str) -> bool:
        """Tell whether a run that stands at this step can still be undone."""
        return self._index[name] < len(self.undoable)

    def holds_lock(self, run: Run) -> bool:
        """Check whether a run that stands there holds the lock of its subject for certain.

        The first line of the door takes the lock. At that line and at the one that unlocks, it may or may not.
        """
        if run.at not in self._index:
            return False
        lock = next(number for number, step in enumerate(self.steps) if step.in_request)
        unlock = next((number for number, step in enumerate(self.steps) if step.unlocks), len(self.steps) - 1)
        return lock < self._index[run.at] < unlock

    def following(self, name: str, facts: Facts) -> Step[Facts] | None:
        """Give the next line that applies, None at the end."""
        return next((s for s in self.steps[self._index[name] + 1 :] if applies(s, facts)), None)

    def preceding(self, name: str, facts: Facts) -> Step[Facts] | None:
        """Give the line before that applies, None at the top."""
        return next((s for s in reversed(self.steps[: self._index[name]]) if applies(s, facts)), None)

    def entrance(self, facts: Facts) -> Step[Facts]:
        """Give the line with which a run begins: the first that was not written down when the run was accepted."""
        return next(s for s in self.steps if not s.accepted and applies(s, facts))


def applies(step: Step[Facts], facts: Facts) -> bool:
    return step.only_if is None or step.only_if(facts)


class SagaRegistry:
    """All sagas by name and version, so that a run goes on upon the list on which it started."""

    def __init__(self, *sagas: Saga) -> None:
        self._sagas = {(saga.name, saga.version): saga for saga in sagas}

    def of(self, run: Run) -> Saga:
        return self._sagas[run.saga, run.version]

    def facts_type(self, name: str, version: int) -> type:
        return self._sagas[name, version].facts

    def has_step(self, name: str, version: int, step: str) -> bool:
        """Check whether a list of steps has, or had, one of this name. Raises: KeyError: there is no such list."""
        return step in self._sagas[name, version]

    def renamed(self, name: str, version: int) -> dict[str, str]:
        """Return former name -> present name of the renamed steps of a list, if there is such a list."""
        saga = self._sagas.get((name, version))
        return saga.renamed if saga else {}

    def newest(self, name: str) -> Saga:
        return max((s for s in self._sagas.values() if s.name == name), key=lambda saga: saga.version)

    def __iter__(self) -> Any:
        return iter(self._sagas.values())
