"""Moves, and other runs on servers."""

from typing import Any

import msgspec

from whimbrel.api.views.decisions import StepDecision


def step_in_hand(at: str, debts: list[str] | tuple[str, ...]) -> str:
    """Return the step at which a run works; at its debts, the first one whose undo it repeats."""
    return debts[0] if at == "debts" and debts else at


class StepTaken(msgspec.Struct, kw_only=True):
    """A step or undo that was taken. sentence: what it does, without a subject."""

    step: str
    way: str
    began: float = 0.0
    took_s: float
    outcome: str
    detail: str | None = None
    event: str | None = None
    request_id: str | None = None
    sentence: str = ""


class MoveRow(msgspec.Struct, kw_only=True):
    """A move in a list. since: when it came to the step `at`. doing: what that step does, without a subject.

    at: "debts": it repeats the undos of `debts`, which could not be done yet; `doing` is then what the first one does.
    """

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
    doing: str = ""
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
    def at_step_since(self) -> float | None:
        """Return since when it has been at its step, or has waited for a verdict; None: it is over."""
        return None if self.is_over else (self.parked_at or self.since or self.created_at)

    @property
    def why(self) -> str:
        """Return why it stands where it stands; "": it waits for a verdict, or is over and was not refused."""
        if self.problem:
            return f"stopped by a bug: {self.problem.strip().splitlines()[-1]}"
        if self.at == "debts" and self.debts:
            return self._why_not_undone
        said = self.message or (self.doing if self.state == "open" else "")
        owed = f"still has to undo {', '.join(self.debts)}" if self.debts else ""
        return "; ".join(filter(None, (said, owed)))

    @property
    def _why_not_undone(self) -> str:
        """Return which undo is repeated, on which host, and why."""
        first, others = self.step, self.debts[1:]
        host = self.target if "target" in self.doing else self.source if "source" in self.doing else None
        why = (self.message or "no answer yet").removeprefix(f"undo of {first}: ")
        more = f" (then {len(others)} more)" if others else ""
        return f"cannot yet undo {first}{f' on {host}' if host else ''}{more}: {why}"

    @property
    def step(self) -> str:
        """Return the step at which it works."""
        return step_in_hand(self.at, self.debts)

    @property
    def is_live(self) -> bool:
        """Check whether the server runs meanwhile; such a move has no verdict."""
        return self.saga == "live_migrate"

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


class Transfer(msgspec.Struct, kw_only=True):
    """The transfer of a live migration when it was last looked at. Amounts in bytes, rates in bytes per second."""

    memory_total: int = 0
    memory_processed: int = 0
    memory_remaining: int = 0
    disk_total: int = 0
    disk_processed: int = 0
    disk_remaining: int = 0
    dirty_rate: int = 0  # what the guest writes to its memory
    rate: int = 0  # what is copied
    throttle_percent: int = 0  # by how much the guest is slowed down
    pause_ms: int = 0  # of the guest at the switch-over: expected; at the end: measured
    elapsed_s: float = 0.0
    is_post_copy: bool = False
    prediction: str = ""
    ends_in_s: float | None = None  # None: not known, or not at this rate
    rung: str | None = None  # of the policy's ladder; None: it is not late


class Candidate(msgspec.Struct, kw_only=True):
    """A host of the last choice."""

    host: str
    reason: str | None
    weight: float | None


class DiskCopy(msgspec.Struct, kw_only=True):
    """The copy of a stopped guest's disk when it was last looked at. rate: bytes per second; None: not known yet."""

    disk: str
    size_bytes: int
    percent: int
    rate: float | None = None


class Move(MoveRow, kw_only=True):
    """ahead: the remaining steps in its present direction, the present one first; ahead_sentences: what they do.

    due_at: the end of its owner's lease; without an owner, the time of the next attempt. summary: of its last choice.
    """

    version: int = 1
    request_id: str | None = None
    due_at: float = 0.0
    steps: list[StepTaken] = []
    ahead: list[str] = []
    ahead_sentences: list[str] = []
    summary: str | None = None
    considered: list[Candidate] = []
    transfer: Transfer | None = None  # of a live migration
    disk_copy: DiskCopy | None = None  # while a disk is copied
    facts: dict[str, Any] = {}  # by the kind of move, as the journal stores them


class LadderStep(msgspec.Struct, kw_only=True):
    """One line of the list of a run, with its undo.

    do_state: "done", "now", "parked" (it waits for a verdict), "ahead", "refused" (the run turned back for that),
    "undone", or "never" (the run turned back before it). undo_state: "none", "unneeded" (its step has not begun),
    "ready" (it would be done if the run turned back), "ahead", "now", "done", "owed", or "past" (the run does not turn
    back any more).
    """

    step: str
    about: str = ""
    undo: str | None = None
    undo_about: str = ""
    do_state: str
    undo_state: str
    forward_only: bool = False
    began: float | None = None
    took_s: float | None = None
    undo_began: float | None = None
    undo_took_s: float | None = None


class Ladder(msgspec.Struct, kw_only=True):
    """A move as its server's owner may see it: no host is named. stopped: at a bug, until it is retried."""

    id: str
    saga: str
    server_id: str
    server_name: str | None = None
    state: str
    status: str
    way: str
    turned: str | None = None
    verdict: str | None = None
    at: str
    tries: int = 0
    debts: list[str] = []
    stopped: bool = False
    created_at: float
    parked_at: float | None = None
    finished_at: float | None = None
    old_flavor: str | None = None
    new_flavor: str | None = None
    steps: list[LadderStep] = []


class LadderAnswer(msgspec.Struct):
    ladder: Ladder


class GuestHalf(msgspec.Struct, kw_only=True):
    """What a host has of the guest of a move. side: "source" or "target".

    power: "reserved" (its place is kept), "incoming" (it waits for its memory), "running", "paused", "suspended" or
    "stopped"; null: nothing of it is there. disks: those that are complete. answers: false: the host's agent does not,
    and the rest is unknown.
    """

    side: str
    cell: str
    host: str
    power: str | None = None
    disks: list[str] = []
    answers: bool = True


class GuestHalves(msgspec.Struct):
    guests: list[GuestHalf]


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
