"""Runs of sagas: lists of steps on one subject. The whole state of a run is one row.

A run of `resize` or `migrate` is a move; create, delete and power operations of servers are runs as well.
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
"""The facts of a run: a Struct of its saga. `Run` alone is a run of any saga; `has_facts` narrows it."""


class LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step or undo: its outcome, its time, and the user's request that it belongs to."""

    step: str
    way: Literal["do", "undo"]
    began: float  # seconds since 1970
    took_s: float
    outcome: Literal["done", "refused", "unanswered", "debt", "parked", "asked"]
    detail: str | None = None
    event: str | None = None  # its name in the compute API
    action: str = ""  # request id of its action


class Run(msgspec.Struct, Generic[Facts], frozen=True, kw_only=True):
    """The row. It is changed only through the journal, under its epoch."""

    id: RunId
    saga: str
    version: int
    subject: ServerId
    project_id: ProjectId  # the subject's
    user_id: UserId  # the requester
    asker_project_id: ProjectId
    action: str  # request id of the current action
    at: str  # name of its current step
    facts: Facts
    number: int = 0  # small id, given by the journal
    way: Way = "forward"
    state: State = "open"
    turned: Literal["refused", "reverted", "asked"] | None = None  # why it rolls back
    epoch: int = 1
    owner: str | None = None
    due_at: float = 0.0  # owned: when the lease expires; else: from when any conductor may take it
    tries: int = 0  # unanswered tries of the current step
    since: float = 0.0  # first try of the current step
    status: str = ""  # status of the migration
    log: tuple[LogEntry, ...] = ()
    debts: tuple[str, ...] = ()  # steps with outstanding undos
    verdict: Verdict | None = None
    message: str | None = None  # the latest trouble, for users
    problem: str | None = None  # traceback of a bug: the run stops until it is retried
    created_at: float = 0.0
    updated_at: float = 0.0
    parked_at: float | None = None
    finished_at: float | None = None
    queued: bool = False  # it waits for its turn behind older runs of its subject; the journal ends that
    is_foreign: bool = False  # of a newer program: its list, step or kind of facts is unknown: do not write it back
    unknown: dict[str, bytes] = {}  # column -> the document of a newer program, whose unknown fields are written back
    incarnation: int = 0  # of the cloud, when the journal was read; not a column of the row
    unsaved: int = 0  # log entries not in the journal yet; not a column of the row

    @property
    def order(self) -> Order:
        """Return the order of this run. Its progress is that of the journal, so that it is never behind a host."""
        return Order(self.id, self.epoch, 1 + len(self.log) - self.unsaved, self.incarnation)

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "undone")


class UnknownFacts(msgspec.Struct, frozen=True):
    """Facts of a run on a list of steps that this program does not know."""


def has_facts(run: Run, kind: type[Facts]) -> TypeIs[Run[Facts]]:
    """Check whether the facts of a run are of this type."""
    return isinstance(run.facts, kind)


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a user on a server, as in os-instance-actions. Its events are in the log of its run."""

    server_id: ServerId
    request_id: str
    name: str  # "create", "resize", "confirmResize" ...
    project_id: ProjectId
    user_id: UserId
    run_id: RunId | None = None
    started_at: float
    updated_at: float | None = None
    message: str | None = None
