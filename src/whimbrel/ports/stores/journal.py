"""The journal: one row per run, the only authority on its progress. Each method is one transaction.

Invariant: every change of a run names the epoch under which it was read; an older epoch raises Superseded.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.ids import ProjectId, RunId, ServerId, UserId
from whimbrel.domain.run import Action, Facts, Run, Verdict
from whimbrel.domain.server import Server


class QuotaUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The quota usage of a server while a run is open."""

    vcpus: int
    memory_mib: int


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Quota limits at the time of a booking; -1: none."""

    instances: int = -1
    cores: int = -1
    ram_mib: int = -1
    group_members: int = -1  # of the server group that a new server joins


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of runs; None: any. Newest first."""

    sagas: Sequence[str] | None = None
    id_prefix: str | None = None  # hexadecimal digits and dashes
    subject: ServerId | None = None
    project_id: ProjectId | None = None  # of the requester, as os-migrations filters
    user_id: UserId | None = None
    statuses: Sequence[str] | None = None
    only_open: bool = False  # open or parked
    changed_since: float | None = None
    changed_before: float | None = None
    after: RunId | None = None  # marker: return runs after it
    limit: int | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a step of a run decided by. The document's format is up to the step."""

    step: str
    at: float
    document: bytes


class Takeover(msgspec.Struct, frozen=True, kw_only=True):
    """The takeover of a run by another conductor, after the lease of its conductor expired."""

    run_id: RunId
    at: float
    was: str  # the former conductor
    by: str
    epoch: int  # since the takeover


class RunGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that are not over, of one saga, at one step, in one direction. Times are seconds since 1970."""

    saga: str
    at: str
    way: str
    state: str  # open or parked
    runs: int
    oldest: float  # the earliest acceptance
    longest: float  # the earliest arrival at the step
    parked: float | None  # the earliest parking
    due: float  # the earliest due time
    bugs: int  # runs stopped by a bug


class LastProof(msgspec.Struct, frozen=True, kw_only=True):
    """The time and result of the last proof."""

    at: float  # seconds since 1970
    violations: int
    unseen: int  # how much was not checked


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of runs, for monitoring."""

    open: list[RunGroup]
    debts: Mapping[str, int]  # undo -> runs that owe it
    debts_since: float | None  # the earliest debt's time
    ended: Mapping[tuple[str, str], int]  # (saga, done | refused | reverted | asked) -> runs, all time
    takeovers: int  # all time
    proof: LastProof | None = None  # None: none yet


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
        """Save run, action, quota usage and a new server's record in one transaction. Return the run with its number.

        A new server joins the group in its hints.
        before: the quota usage of an existing server as the caller read it. beside: a parked run of the subject that
        stays parked; it gets no verdict before this run is over.
        Raises: Conflict: the subject has another run that is not over, is deleted, or has another quota usage;
        OverQuota; Invalid: the new server's group is gone; Unavailable.
        """
        ...

    async def forget(self, run: Run, before: QuotaUsage | None = None) -> None:
        """Remove an accepted run that has done nothing yet, with its action; restore the quota usage `before`.

        Raises: Superseded: another engine has taken it over.
        """
        ...

    async def save(
        self, run: Run, raised: bool = False, evidence: Evidence | None = None, usage: QuotaUsage | None = None
    ) -> None:
        """Save the run. raised: its epoch is one more than the one under which it was read.

        evidence: what its last step decided by. usage: of its subject from now on.

        Raises: Superseded; Unavailable.
        """
        ...

    async def get(self, run_id: RunId) -> Run:
        """Raises: NotFound."""
        ...

    async def evidence(self, run_id: RunId) -> list[Evidence]:
        """Return what a run decided by, in the order of its decisions."""
        ...

    async def open_run(self, server_id: ServerId) -> Run | None:
        """Return the run on a server that is not over; if one is open beside a parked one, the parked one."""
        ...

    async def find(self, which: RunFilter) -> list[Run]: ...

    async def take(self, owner: str, now: float, lease_s: float, limit: int) -> list[Run]:
        """Take open runs that are due: each under a new epoch, leased to `owner` until now + lease_s.

        If another owner's lease had expired, the takeover is recorded. A lease that ends far later than now + lease_s
        was written by a wrong clock, and counts as expired.
        """
        ...

    async def takeovers(self, server_id: ServerId) -> list[Takeover]:
        """Return the takeovers of a server's runs, the oldest first."""
        ...

    async def take_back(self, owner: str, now: float) -> int:
        """Make all runs leased to `owner` due at once; it no longer drives runs. Return how many."""
        ...

    async def renew(self, owner: str, run_ids: Sequence[RunId], now: float, lease_s: float) -> None:
        """Extend the lease of those of these runs that `owner` still holds."""
        ...

    async def park(self, run: Run) -> Run:
        """Save a run, parked until a verdict and without an owner; open, under its lease, if the verdict has come.

        Raises: Superseded; Unavailable.
        """
        ...

    async def give_verdict(
        self, run_id: RunId, verdict: Verdict, status: str, action: Action, now: float, heard_at: Sequence[str] = ()
    ) -> Run:
        """Save a verdict, once: wake a parked run, or mark an open one that is at one of the steps `heard_at`.

        Repeatable with the same verdict. Raises: Conflict: the other verdict was given, the run is not going forward,
        or another run is open beside it.
        """
        ...

    async def judge(self, run: Run, action: Action) -> Run | None:
        """Save a run that its verdict wakes, with the verdict and its action: open, under the next epoch.

        Return None, and change nothing, unless it was parked under the epoch before, without a verdict and without
        another open run beside it. Raises: Unavailable: all runs are held.
        """
        ...

    async def turn_back(self, run: Run, now: float) -> Run:
        """Roll back an open run from the step at which it was read, under a new epoch.

        The caller checks with its saga that this is allowed. Raises: Conflict: it has gone on since, or another run is
        open beside it.
        """
        ...

    async def retry(self, run_id: RunId, now: float) -> Run:
        """Make an open run due now, under a new epoch, and clear its problem."""
        ...

    async def expired(self, parked_before: float) -> list[Run]:
        """Return the runs parked before that time."""
        ...

    async def add_action(self, action: Action) -> None:
        """Save a request that needs no run (lock, resetState ...)."""
        ...

    async def actions(self, server_id: ServerId) -> list[Action]:
        """Return a server's actions, the newest first, also of deleted servers."""
        ...

    async def ended(self, after: float, until: float) -> list[RunId]:
        """Return the runs that ended later than `after` and not later than `until`."""
        ...

    async def take_round(self, name: str, now: float, every_s: float) -> bool:
        """Begin a round of this name if none has begun for every_s. Return whether the caller is to do it."""
        ...

    async def note_proof(self, proof: LastProof) -> None:
        """Save the result of a proof, unless a later one is known."""
        ...

    async def tally(self, now: float) -> Tally:
        """Count runs. The cost does not depend on their number."""
        ...
