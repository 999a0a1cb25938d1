"""Moves, and other runs on servers."""

from typing import Any

import msgspec

from whimbrel.api.views.decisions import StepDecision


class StepTaken(msgspec.Struct, kw_only=True):
    step: str
    way: str
    began: float = 0.0
    took_s: float
    outcome: str
    detail: str | None = None
    event: str | None = None
    request_id: str | None = None


class MoveRow(msgspec.Struct, kw_only=True):
    """A move in a list. due_at: the end of its owner's lease; without an owner, the time of the next attempt."""

    id: str
    number: int = 0
    saga: str
    server_id: str
    server_name: str | None = None
    project_id: str = ""
    user_id: str = ""
    state: str
    status: str
    way: str
    turned: str | None = None
    verdict: str | None = None
    at: str
    source: str | None = None
    target: str | None = None
    source_cell: str | None = None
    target_cell: str | None = None
    cross_cell: bool = False
    old_flavor: str | None = None
    new_flavor: str | None = None
    tries: int = 0
    debts: list[str] = []
    message: str | None = None
    problem: str | None = None
    epoch: int = 1
    owner: str | None = None
    since: float = 0.0
    created_at: float
    updated_at: float = 0.0
    parked_at: float | None = None
    finished_at: float | None = None

    @property
    def source_path(self) -> str | None:
        """Return the source host, with its cell if that is not the target's."""
        return f"{self.source_cell}/{self.source}" if self.cross_cell else self.source

    @property
    def target_path(self) -> str | None:
        return f"{self.target_cell}/{self.target}" if self.cross_cell else self.target

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "undone")

    @property
    def needs_person(self) -> bool:
        """Check whether it continues only when it is confirmed, reverted or retried."""
        return self.state == "parked" or self.problem is not None

    @property
    def trouble(self) -> tuple[str, ...]:
        """Return what blocks it; empty: nothing known."""
        unanswered = (self.at, self.message or "") if self.tries else ()
        return (*unanswered, *self.debts, *([self.problem] if self.problem else []))


class Candidate(msgspec.Struct, kw_only=True):
    """A host of the last choice."""

    host: str
    reason: str | None
    weight: float | None


class Move(MoveRow, kw_only=True):
    """ahead: the remaining steps in its present direction, the present one first. summary: of its last choice."""

    version: int = 1
    request_id: str | None = None
    due_at: float = 0.0
    steps: list[StepTaken] = []
    ahead: list[str] = []
    summary: str | None = None
    considered: list[Candidate] = []
    facts: dict[str, Any] = {}  # by the kind of move, as the journal stores them


class Moves(msgspec.Struct):
    moves: list[MoveRow]


class MoveAnswer(msgspec.Struct):
    move: Move


class Decider(msgspec.Struct, kw_only=True):
    """The run whose decisions are shown."""

    id: str
    saga: str
    server_id: str
    state: str
    message: str | None


class Decisions(msgspec.Struct):
    move: Decider
    decisions: list[StepDecision]


class Export(msgspec.Struct):
    """The journal of one move, for `whimbrel sim replay`."""

    export: dict[str, Any]
