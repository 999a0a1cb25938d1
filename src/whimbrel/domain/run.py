"""One run of a saga: a line of steps on one subject, so its whole state is one row.

A run of `resize` or `migrate` is a move; creating, deleting and switching a server run on the same rails.
"""

from typing import Generic, Literal

import msgspec
from typing_extensions import TypeIs, TypeVar

from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ProjectId, RunId, ServerId, UserId

Way = Literal["forward", "back"]
State = Literal["open", "parked", "done", "undone"]
Verdict = Literal["confirm", "revert"]

Facts = TypeVar("Facts", covariant=True, default=object)
"""What a run knows: a Struct of its saga. `Run` alone is a run of any saga; `has_facts` narrows it."""


class LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step taken: what happened, when, and under which of the user's requests."""

    step: str
    way: Literal["do", "undo"]
    began: float  # seconds since 1970
    took_s: float
    outcome: Literal["done", "refused", "unanswered", "debt", "parked", "asked"]
    detail: str | None = None
    event: str | None = None  # the name under which the compute API shows it
    action: str = ""  # request id of the action that it belongs to


class Run(msgspec.Struct, Generic[Facts], frozen=True, kw_only=True):
    """The row. Changed only through the journal, under its epoch."""

    id: RunId
    saga: str
    version: int
    subject: ServerId
    project_id: ProjectId  # the subject's
    user_id: UserId  # who asked
    asker_project_id: ProjectId
    action: str  # request id of the action that is served now
    at: str  # name of the step where it stands
    facts: Facts
    number: int = 0  # small id, given by the journal
    way: Way = "forward"
    state: State = "open"
    turned: Literal["refused", "reverted", "asked"] | None = None  # why it goes back
    epoch: int = 1
    owner: str | None = None
    due_at: float = 0.0  # owned: until when; else from when on anybody may take it
    tries: int = 0  # of the present step, unanswered
    since: float = 0.0  # when the present step was first tried
    status: str = ""  # what a migration record shows
    log: tuple[LogEntry, ...] = ()
    debts: tuple[str, ...] = ()  # undos that are still owed, by step
    verdict: Verdict | None = None
    message: str | None = None  # the latest trouble, for people
    problem: str | None = None  # traceback of a bug: it stands still until somebody says retry
    created_at: float = 0.0
    updated_at: float = 0.0
    parked_at: float | None = None
    finished_at: float | None = None
    is_foreign: bool = False  # a newer program wrote more into the row than this one knows: it must not write it back
    incarnation: int = 0  # of the cloud, when the journal was read; not a column of the row
    unsaved: int = 0  # entries of the log that the journal does not have yet; not a column of the row

    @property
    def order(self) -> Order:
        """Return the order of this run. Its progress is what the journal knows, so that it is never behind a host."""
        return Order(self.id, self.epoch, 1 + len(self.log) - self.unsaved, self.incarnation)

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "undone")


def has_facts(run: Run, kind: type[Facts]) -> TypeIs[Run[Facts]]:
    """Check whether the facts of a run are of this type."""
    return isinstance(run.facts, kind)


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a user on a server, as os-instance-actions shows it. Its events are in the log of its run."""

    server_id: ServerId
    request_id: str
    name: str  # "create", "resize", "confirmResize" ...
    project_id: ProjectId
    user_id: UserId
    run_id: RunId | None = None
    started_at: float
    updated_at: float | None = None
    message: str | None = None
