"""What changes on servers, hosts and maintenances, for pages that show it live.

Invariants: one process reads the journal once for all its followers, and not at all without any. A follower that is
too slow, or comes after a pause, is told to read everything anew; no change is lost silently.
"""

import asyncio
from collections import deque
from collections.abc import Hashable, Mapping

import msgspec

from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName, ProjectId, RunId, ServerId, UserId
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.stores.journal import JournalCursor, NotedRequest, RunPosition
from whimbrel.servers.listing import cell_fanout

LOOK_S = 0.5
HOSTS_S = 5.0
PAUSE_S = 60.0
"""After such a time without a reading, the changes meanwhile are not read."""
KEPT = 2000
MAINTENANCES = 100
"""The newest ones, whose changes are seen."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something changed on a server: a request was noted (run_id None), or a run is somewhere else."""

    server_id: ServerId
    project_id: ProjectId
    user_id: UserId
    at: str  # the step, or the request
    run_id: RunId | None = None
    saga: str | None = None
    state: str | None = None
    way: str | None = None


class JournalChanges:
    """The changes that this process has read, numbered from its start."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._kept = deque[Change](maxlen=KEPT)
        self._count = 0  # of all changes, kept or not
        self._from = 0  # the first change after the last pause
        self._cursor: JournalCursor | None = None
        self._open: dict[RunId, RunPosition] = {}
        self._ended = _Recent()  # runs, which are read several times
        self._noted = _Recent()  # numbers of requests, likewise
        self._looked_at = 0.0
        self._looking = asyncio.Lock()
        self._looking_at_hosts = asyncio.Lock()  # a cell that does not answer delays no changes of servers
        self._hosts: Mapping[CellName, Mapping[HostName, tuple[bool, ...]]] = {}
        self._maintenances: Mapping[str, int] = {}
        self._hosts_version = 0
        self._hosts_looked_at = 0.0

    async def position(self) -> int:
        """Return the number of the next change. Raises: Unavailable: the database does not answer."""
        await self._look()
        return self._count

    async def after(self, position: int) -> tuple[list[Change] | None, int]:
        """Return the changes from a position on, and the next position; None: some of them are not known any more.

        Raises: Unavailable.
        """
        await self._look()
        first = max(self._from, self._count - len(self._kept))
        if position < first:
            return None, self._count
        return list(self._kept)[len(self._kept) - (self._count - position) :], self._count

    async def hosts_version(self) -> int:
        """Return a number that rises when a host appears, disappears, is switched, or is no longer up.

        It also rises when a maintenance of hosts goes on. Raises: Unavailable.
        """
        async with self._looking_at_hosts:
            now = self._cloud.clock.now()
            if not self._hosts_version or now - self._hosts_looked_at >= HOSTS_S:
                self._hosts_looked_at = now
                await self._look_at_hosts(now)
        return self._hosts_version

    async def _look(self) -> None:
        async with self._looking:
            now = self._cloud.clock.now()
            if self._cursor is None or now - self._looked_at > PAUSE_S:
                await self._begin()
            elif now - self._looked_at >= LOOK_S:
                await self._read(self._cursor)
            else:
                return
            self._looked_at = now

    async def _begin(self) -> None:
        end = await self._cloud.journal.end()
        news = await self._cloud.journal.news(end, ())
        self._kept.clear()
        self._from = self._count = self._count + 1  # followers from before the pause read everything anew
        self._cursor = news.cursor
        self._open = {run.id: run for run in news.runs if run.state == "open"}
        for run in news.runs:
            self._ended.is_new((run.id, run.updated_at))
        for request in news.requests:
            self._noted.is_new(request.number)

    async def _read(self, cursor: JournalCursor) -> None:
        news = await self._cloud.journal.news(cursor, list(self._open))
        found = {run.id for run in news.runs}
        for gone in [run for run in self._open.values() if run.id not in found]:
            del self._open[gone.id]  # its request has taken it back
            self._note(_of_run(gone))
        for run in news.runs:
            if self._is_new(run):
                self._note(_of_run(run))
        for request in news.requests:
            if self._noted.is_new(request.number):
                self._note(_of_request(request))
        self._cursor = news.cursor

    def _is_new(self, run: RunPosition) -> bool:
        """Check whether a run is somewhere else than when it was last read, and remember where it is."""
        before = self._open.pop(run.id, None)
        if run.finished_at is not None:
            return self._ended.is_new((run.id, run.updated_at))
        if run.state == "open":
            self._open[run.id] = run
        return before != run

    def _note(self, change: Change) -> None:
        self._kept.append(change)
        self._count += 1

    async def _look_at_hosts(self, now: float) -> None:
        answers = await cell_fanout.ask_all(self._cloud, _hosts_of)
        found = {name: {host.name: _mark(host, now) for host in hosts} for name, hosts in answers.of.items()}
        newest = await self._cloud.maintenances.find(limit=MAINTENANCES)
        maintenances = {each.id: each.version for each in newest}
        if (found, maintenances) != (self._hosts, self._maintenances) or not self._hosts_version:
            self._hosts, self._maintenances = found, maintenances
            self._hosts_version += 1


class _Recent:
    """The newest of what was read."""

    def __init__(self) -> None:
        self._known = dict[Hashable, None]()

    def is_new(self, key: Hashable) -> bool:
        """Check whether it is not known yet, and remember it."""
        if key in self._known:
            return False
        self._known[key] = None
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return True


async def _hosts_of(cell: Cell) -> list[Host]:
    return list(await cell.hosts.all())


def _mark(host: Host, now: float) -> tuple[bool, ...]:
    return host.enabled, host.forced_down, host.is_up(now)


def _of_run(run: RunPosition) -> Change:
    return Change(
        server_id=run.subject,
        project_id=run.project_id,
        user_id=run.user_id,
        at=run.at,
        run_id=run.id,
        saga=run.saga,
        state=run.state,
        way=run.way,
    )


def _of_request(request: NotedRequest) -> Change:
    return Change(server_id=request.server_id, project_id=request.project_id, user_id=request.user_id, at=request.name)
