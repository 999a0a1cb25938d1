"""The journal: one row per run, the only authority on its progress. Each method is one transaction.

Invariant: every change of a run names the epoch under which it was read; an older epoch raises Superseded.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.ids import HostName, ProjectId, RunId, ServerId, UserId
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
    states: Sequence[str] | None = None  # open, parked, done, undone
    only_open: bool = False  # open or parked
    source_host: HostName | None = None  # of moves; also runs of which the journal does not know it: read their facts
    changed_since: float | None = None
    changed_before: float | None = None
    ended_since: float | None = None
    ended_before: float | None = None
    after: RunId | None = None  # marker: return runs after it
    limit: int | None = None


class ItemStart(msgspec.Struct, frozen=True, kw_only=True):
    """The item of a maintenance that a run moves, and the version of the maintenance that was read.

    source: None: a host of the maintenance; another one makes room for it.
    """

    maintenance_id: str
    version: int
    position: int
    source: HostName | None
    target: HostName
    reason: str | None = None


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


MINUTE_S = 60.0

PROOFS_KEPT = 200
"""How many proofs are kept, for their trend."""


class LastProof(msgspec.Struct, frozen=True, kw_only=True):
    """The time and result of the last proof."""

    at: float  # seconds since 1970
    violations: int
    unseen: int  # how much was not checked


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be announced to other services, and what was."""

    marked: int  # runs and requests
    oldest: float | None  # the earliest change of one of them, seconds since 1970
    sent: int  # notifications, all time
    dropped: int  # notifications that were too old, or without a record; all time


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of runs, for monitoring."""

    open: list[RunGroup]
    debts: Mapping[str, int]  # undo -> runs that owe it
    debts_since: float | None  # the earliest debt's time
    ended: Mapping[tuple[str, str], int]  # (saga, done | refused | reverted | asked) -> runs, all time
    takeovers: int  # all time
    proof: LastProof | None = None  # None: none yet
    backlog: Backlog | None = None  # None: nothing is announced


class RunPosition(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run is, without its facts and its log."""

    id: RunId
    number: int
    saga: str
    subject: ServerId
    project_id: ProjectId
    user_id: UserId
    state: str
    way: str
    at: str
    epoch: int
    tries: int
    updated_at: float
    finished_at: float | None
    progress_at: float | None  # when the progress of a long step was last saved


class NotedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request on a server, with the project and user of the server."""

    number: int
    name: str
    server_id: ServerId
    project_id: ProjectId
    user_id: UserId


class JournalCursor(msgspec.Struct, frozen=True, kw_only=True):
    """How far a reader has read: numbers of the last run and request, and the end of the run that ended last."""

    run: int = 0
    request: int = 0
    ended: float = 0.0

    def at_least(self, other: "JournalCursor") -> "JournalCursor":
        return JournalCursor(
            run=max(self.run, other.run), request=max(self.request, other.request), ended=max(self.ended, other.ended)
        )


class JournalNews(msgspec.Struct, frozen=True, kw_only=True):
    """What is open, and what began or ended since a cursor. What ended or was noted shortly before it is repeated."""

    runs: list[RunPosition]
    requests: list[NotedRequest]
    cursor: JournalCursor


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
        behind: Sequence[RunId] = (),
        before_queued: bool = False,
        item: ItemStart | None = None,
        most_per_minute: int = 0,
    ) -> Run[Facts]:
        """Save run, action, quota usage and a new server's record in one transaction. Return the run with its number.

        A new server joins the group in its hints.
        before: the quota usage of an existing server as the caller read it. beside: a parked run of the subject that
        stays parked; it gets no verdict before this run is over.
        behind: exactly the open runs of the subject, the one under way first, then the queued ones in order of their
        numbers: this run is queued, and taken when they are over. before_queued: it begins before the queued ones.
        item: of a running maintenance: the run is bound to it.
        most_per_minute: how many runs of its saga may leave its host in a minute, also if other processes accept them;
        0: any number.
        Raises: Busy: the subject has another run that is not over, or not those; Conflict: it is deleted, or has
        another quota usage; Superseded: the maintenance has changed; OverQuota; OverRate; Invalid: the new server's
        group is gone; Unavailable.
        """

    async def forget(self, run: Run, before: QuotaUsage | None = None) -> None:
        """Remove an accepted run that has done nothing yet, with its action; restore the quota usage `before`.

        Raises: Superseded: another engine has taken it over.
        """

    async def save(
        self,
        run: Run,
        raised: bool = False,
        evidence: Evidence | None = None,
        usage: QuotaUsage | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        """Save the run, except its verdict. raised: its epoch is one more than the one under which it was read.

        evidence: what its last step decided by. usage: of its subject from now on. verdict: replaces the one that was
        given.

        Raises: Superseded; Unavailable.
        """

    async def get(self, run_id: RunId) -> Run:
        """Raises: NotFound."""

    async def evidence(self, run_id: RunId) -> list[Evidence]:
        """Return what a run decided by, in the order of its decisions."""

    async def open_run(self, server_id: ServerId) -> Run | None:
        """Return the run on a server that is not over; if one is open beside a parked one, the parked one."""

    async def find(self, which: RunFilter) -> list[Run]: ...

    async def newest_ends(self, saga: str, source_host: HostName, since: float) -> tuple[int, list[Run]]:
        """Of each subject's newest run of a saga from a host that ended since then, count the done; return the undone.

        The cost in rows is that of the undone.
        """

    async def newest_starts(self, saga: str, source_host: HostName, now: float) -> list[float]:
        """Return when the runs of a saga from a host were accepted in the last minute, the oldest first."""

    async def highest_ticket(self) -> int:
        """Return the highest ticket of the open runs; 0: none has drawn one."""

    async def note_progress(self, run_id: RunId, epoch: int, document: bytes, now: float) -> None:
        """Save how far a long step of a run is, for users. Nothing is decided by it: an older epoch changes nothing."""

    async def progress(self, run_ids: Sequence[RunId]) -> dict[RunId, bytes]:
        """Return the last saved progress of these runs; a run without one is missing."""

    async def set_status(self, run_id: RunId, was: str, status: str, now: float) -> bool:
        """Change the status of a run that is over, if it is `was`. Return whether it was."""

    async def take(self, owner: str, now: float, lease_s: float, limit: int) -> list[Run]:
        """Take open runs that are due: each under a new epoch, leased to `owner` until now + lease_s.

        If another owner's lease had expired, the takeover is recorded. A lease that ends far later than now + lease_s
        was written by a wrong clock, and counts as expired.
        """

    async def takeovers(self, server_id: ServerId) -> list[Takeover]:
        """Return the takeovers of a server's runs, the oldest first."""

    async def take_back(self, owner: str, now: float) -> int:
        """Make all runs leased to `owner` due at once; it no longer drives runs. Return how many."""

    async def renew(self, owner: str, run_ids: Sequence[RunId], now: float, lease_s: float) -> None:
        """Extend the lease of those of these runs that `owner` still holds."""

    async def park(self, run: Run) -> Run:
        """Save a run, parked until a verdict and without an owner; open, under its lease, if the verdict has come.

        Raises: Superseded; Unavailable.
        """

    async def give_verdict(
        self, run_id: RunId, verdict: Verdict, status: str, action: Action, now: float, heard_at: Sequence[str] = ()
    ) -> Run:
        """Save a verdict, once: wake a parked run, or mark an open one that is at one of the steps `heard_at`.

        Repeatable with the same verdict. Raises: Conflict: the other verdict was given, the run is not going forward,
        or another run is open beside it.
        """

    async def judge(self, run_id: RunId, action: Action, wake: Callable[[Run], Run | None]) -> Run | None:
        """Read a parked run, and save what `wake` makes of it: open, under the next epoch, with a verdict; and the
        action.

        Return None, and change nothing, if there is no such run or `wake` returns None, and unless the run is parked
        without a verdict and without another open run beside it. Raises: Unavailable: all runs are held.
        """

    async def turn_back(self, run: Run, now: float) -> Run:
        """Roll back an open run from the step at which it was read, under a new epoch.

        The caller checks with its saga that this is allowed. Raises: Conflict: it has gone on since, or another run is
        open beside it.
        """

    async def retry(self, run_id: RunId, now: float) -> Run:
        """Make an open run due now, under a new epoch, and clear its problem."""

    async def hasten(self, server_id: ServerId, now: float) -> bool:
        """Make the open run of a server due now if it pauses before its next try. Return whether it did."""

    async def expired(self, parked_before: float) -> list[Run]:
        """Return the runs parked before that time."""

    async def add_action(self, action: Action) -> None:
        """Save a request that needs no run (lock, resetState ...)."""

    async def actions(self, server_id: ServerId) -> list[Action]:
        """Return a server's actions, the newest first, also of deleted servers."""

    async def ended(self, after: float, until: float) -> list[RunId]:
        """Return the runs that ended later than `after` and not later than `until`."""

    async def take_round(self, name: str, now: float, every_s: float) -> bool:
        """Begin a round of this name if none has begun for every_s. Return whether the caller is to do it."""

    async def note_proof(self, proof: LastProof) -> None:
        """Save the result of a proof: as the last one, unless a later one is known, and among the last PROOFS_KEPT."""

    async def proofs(self) -> list[LastProof]:
        """Return the last proofs, the newest first."""

    async def tally(self, now: float) -> Tally:
        """Count runs. The cost does not depend on their number."""

    async def stalled(self, failing_since: float, working_since: float, limit: int) -> list[Run]:
        """Return open runs that do not go on, the longest at their step first.

        That is: they stopped at a bug, or have failed at their step since `failing_since` or earlier, or have been at
        it since `working_since` or earlier. Queued runs are left out: they wait for another run.
        """

    async def end(self) -> JournalCursor:
        """Return the present end of the journal, from which `news` continues."""

    async def news(self, since: JournalCursor, also: Sequence[RunId]) -> JournalNews:
        """Return the open runs, those of `also`, and all runs and requests that are newer than the cursor.

        also: runs that were open at the last reading: they may be parked now.
        """
