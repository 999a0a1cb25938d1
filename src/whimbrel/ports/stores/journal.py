"""The journal: one row per run, the only truth about how far it is. Each method is one transaction.

Law: every change of a run names the epoch under which it was read; an older one gets Superseded.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.ids import ProjectId, RunId, ServerId, UserId
from whimbrel.domain.run import Action, Facts, Run, Verdict
from whimbrel.domain.server import Server


class QuotaUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a server counts for in its project's quota while a run is under way."""

    vcpus: int
    memory_mib: int


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Quota limits that hold when a booking is made; -1: none."""

    instances: int = -1
    cores: int = -1
    ram_mib: int = -1
    group_members: int = -1  # of the server group that a new server joins


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list; None: any. Newest first."""

    sagas: Sequence[str] | None = None
    id_prefix: str | None = None  # hexadecimal digits and dashes
    subject: ServerId | None = None
    project_id: ProjectId | None = None  # of the asker, as os-migrations filters
    user_id: UserId | None = None
    statuses: Sequence[str] | None = None
    only_open: bool = False  # open or parked
    changed_since: float | None = None
    changed_before: float | None = None
    after: RunId | None = None  # marker: give what comes after it
    limit: int | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a step of a run decided by. The document is the step's own; the journal only keeps it."""

    step: str
    at: float
    document: bytes


class Takeover(msgspec.Struct, frozen=True, kw_only=True):
    """That a run went over to another conductor, because the lease of the one that had it ran out."""

    run_id: RunId
    at: float
    was: str  # the conductor that gave no sign of life
    by: str
    epoch: int  # from then on


class RunGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that are not over, of one kind, at one step, on one way. Times are seconds since 1970."""

    saga: str
    at: str
    way: str
    state: str  # open or parked
    runs: int
    oldest: float  # when the first of them was accepted
    longest: float  # since when one of them has been at its step
    parked: float | None  # since when one of them has been parked
    due: float  # when the first of them is or was due
    bugs: int  # how many stand still at a bug


class LastProof(msgspec.Struct, frozen=True, kw_only=True):
    """When the cloud's books were last checked, and what came of it."""

    at: float  # seconds since 1970
    violations: int
    unseen: int  # how much could not be looked at


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs there are, for those who watch."""

    open: list[RunGroup]
    debts: Mapping[str, int]  # undo -> how many runs owe it
    debts_since: float | None  # since when one of them has been at it
    ended: Mapping[tuple[str, str], int]  # (saga, done | refused | reverted | asked) -> runs, of all times
    takeovers: int  # of all times
    proof: LastProof | None = None  # None: there was none yet


class Journal(Protocol):
    async def accept(
        self,
        run: Run[Facts],
        action: Action,
        quota_usage: QuotaUsage | None = None,
        limits: Limits | None = None,
        new_server: Server | None = None,
        before: QuotaUsage | None = None,
        beside: RunId | None = None,
    ) -> Run[Facts]:
        """Write down run, action, quota booking and a new server's record, or nothing of it; give the run's number.

        A new server joins the group that its hints name.
        before: what a server that is there was booked for when the caller looked. beside: a parked run of the subject
        that goes on waiting meanwhile; it gets no verdict before this run is over.
        Raises: Conflict: the subject has another run that is not over, is deleted, or is booked for something else;
        OverQuota; Invalid: the new server's group is gone; Unavailable.
        """
        ...

    async def forget(self, run: Run, before: QuotaUsage | None = None) -> None:
        """Take an accepted run back that did nothing yet, with its action; book again what was booked before.

        Raises: Superseded: somebody else has taken it, and drives it.
        """
        ...

    async def save(self, run: Run, raised: bool = False, evidence: Evidence | None = None) -> None:
        """Write the run's present state. raised: its epoch is one more than the one under which it was read.

        evidence: what it decided by just now, to be kept beside it.

        Raises: Superseded; Unavailable.
        """
        ...

    async def get(self, run_id: RunId) -> Run:
        """Raises: NotFound."""
        ...

    async def evidence(self, run_id: RunId) -> list[Evidence]:
        """Give what a run decided by, in the order of its decisions."""
        ...

    async def open_run(self, server_id: ServerId) -> Run | None:
        """Give the run that is not over on a server; where one is open beside a parked one, the parked one."""
        ...

    async def find(self, which: RunFilter) -> list[Run]: ...

    async def take(self, owner: str, now: float, lease_s: float, limit: int) -> list[Run]:
        """Take open runs that are due: each under a new epoch, leased to `owner` until now + lease_s.

        Where another one's lease had run out, that is written down. A lease that ends far later than now + lease_s
        was written by a wrong clock, and counts as one that has run out.
        """
        ...

    async def takeovers(self, server_id: ServerId) -> list[Takeover]:
        """List how runs on a server went from one conductor to another, the oldest first."""
        ...

    async def take_back(self, owner: str, now: float) -> int:
        """Make everything due at once that is leased to `owner`, which drives no runs any more; return how many."""
        ...

    async def renew(self, owner: str, run_ids: Sequence[RunId], now: float, lease_s: float) -> None:
        """Extend the lease of these runs as far as `owner` still holds them."""
        ...

    async def park(self, run: Run) -> Run:
        """Let a run wait for a verdict, in nobody's hands; give it back open where one came meanwhile.

        Raises: Superseded; Unavailable.
        """
        ...

    async def give_verdict(
        self, run_id: RunId, verdict: Verdict, status: str, action: Action, now: float, heard_at: Sequence[str] = ()
    ) -> Run:
        """Write a verdict down, once: wake a parked run, or be heard by an open one that stands at one of these steps.

        The same verdict again is fine. Conflict: the other one was given, it is not on its way forward, or another
        run is open beside it.
        """
        ...

    async def turn_back(self, run: Run, now: float) -> Run:
        """Have an open run walk back from where it was read to stand, under a new epoch.

        Whether it may from there is the caller's question to its saga. Raises: Conflict: it has gone on since, or
        another run is open beside it.
        """
        ...

    async def retry(self, run_id: RunId, now: float) -> Run:
        """Make an open run due now, under a new epoch, its problem cleared."""
        ...

    async def expired(self, parked_before: float) -> list[Run]:
        """List runs parked before that time."""
        ...

    async def add_action(self, action: Action) -> None:
        """Write down a request that needs no run (lock, resetState ...)."""
        ...

    async def actions(self, server_id: ServerId) -> list[Action]:
        """List a server's actions, newest first, deleted servers' too."""
        ...

    async def ended(self, after: float, until: float) -> list[RunId]:
        """List the runs that ended after the one time and until the other."""
        ...

    async def take_round(self, name: str, now: float, every_s: float) -> bool:
        """Tell whether a round of this name is due, nobody having begun one for so long: then it is the caller's."""
        ...

    async def note_proof(self, proof: LastProof) -> None:
        """Keep what a proof came to, unless a later one is known."""
        ...

    async def tally(self, now: float) -> Tally:
        """Count runs; cheap however many there were."""
        ...
