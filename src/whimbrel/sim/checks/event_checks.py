"""Checks after each event, limited to the server of the event.

Invariant: an event changes one server. If that server is unknown, and at intervals, all servers with an open or recent
run are checked; `Invariants` checks the others less often, and at the end. The cost of a check depends neither on the
size of the cloud nor on its load.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound
from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import ConsumerId, HostName, ServerId
from whimbrel.domain.pci import HeldDevice
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.evacuate import EVACUATE
from whimbrel.moves.evacuation_facts import ARRIVED
from whimbrel.ports.placement.placement import Allocation
from whimbrel.ports.stores.directory import Entry
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.checks.invariants import Hosts, Invariants, rows_of
from whimbrel.sim.checks.observed_servers import Rows

Read = TypeVar("Read")

_ARRIVED = RunFilter(sagas=(EVACUATE.name,), statuses=(ARRIVED,))

LATEST_RUNS = 3
"""How many of a server's newest runs are checked: a finished run may have left something."""


class EventChecks(Invariants):
    _going: frozenset[ServerId] = frozenset()  # servers with open runs at the last check
    _about: tuple[ServerId, ...] = ()
    _known: Mapping[ServerId, Entry] = {}
    _there: Sequence[tuple[HostName, Guest]] = ()
    _seen_hosts: Hosts = MappingProxyType({})

    async def check_open_runs(self, after: str) -> None:
        """Check the invariants for all servers with open or recent runs. Raises: Violation."""
        self._seen_hosts = await self._hosts()  # hosts change rarely
        open_runs = await self._world.cloud.journal.find(RunFilter(only_open=True))
        going = frozenset(run.subject for run in open_runs)
        ended = sorted(self._going - going)
        self._going = going
        latest = [run for server in ended for run in await self._latest(server)]
        arrived = await self._world.cloud.journal.find(_ARRIVED)
        among = [run for run in arrived if run.subject in going]
        await self._check((*sorted(going), *ended), [*open_runs, *latest, *among], after)

    async def check_server(self, server: ServerId, after: str) -> None:
        """Check the invariants for one server, with or without an open run. Raises: Violation."""
        runs = await self._once(f"runs of {server}", ("global",), lambda: self._open_or_latest(server))
        is_going = any(not run.is_over for run in runs)
        self._going = self._going | {server} if is_going else self._going - {server}
        await self._check((server,), runs, after)

    async def _check(self, about: tuple[ServerId, ...], runs: list[Run], after: str) -> None:
        self._about = about
        self._there = self._world.simulated.guests_of(about)
        directory = self._world.cloud.directory
        self._known = await self._of_these("entries", ("global",), lambda: directory.entries(about)) if about else {}
        servers = await self._of_these("servers", self._cells, self._records_that_count, self._known)
        self._complain(await self._problems(runs, servers, self._seen_hosts), after)

    async def _open_or_latest(self, server: ServerId) -> list[Run]:
        """Return its open runs, with evacuations that left a guest behind; or else its latest."""
        find = self._world.cloud.journal.find
        if open_runs := await find(RunFilter(subject=server, only_open=True)):
            return [*open_runs, *await find(replace(_ARRIVED, subject=server))]
        return await self._latest(server)

    async def _latest(self, server: ServerId) -> list[Run]:
        return await self._world.cloud.journal.find(RunFilter(subject=server, limit=LATEST_RUNS))

    async def _of_these(
        self, what: str, databases: tuple[str, ...], read: Callable[[], Awaitable[Read]], asked: Any = None
    ) -> Read:
        """Read data of the checked servers. For one server, read again only if a database or `asked` has changed."""
        if len(self._about) == 1:
            return await self._once(f"{what} of {self._about[0]}", databases, read, asked)
        return await read()

    async def _records_that_count(self) -> list[Server]:
        return [server for entry in self._known.values() if (server := await self._record(entry))]

    async def _record(self, entry: Entry) -> Server | None:
        if entry.deleted_at is not None or entry.cell is None:
            return entry.unplaced
        try:
            return await self._world.cloud.cell(entry.cell).servers.get(entry.server_id)
        except NotFound:
            return None  # the server's record is closed already

    # Reads, limited to the checked servers

    async def _allocations(self, runs: list[Run], servers: list[Server]) -> list[Allocation]:
        consumers = [ConsumerId(one) for one in (*self._about, *(run.id for run in runs))]
        read = self._world.cloud.placement.allocations
        return await self._of_these("claims", ("placement",), lambda: read(consumers), consumers)

    def _guests(self) -> Sequence[tuple[HostName, Guest]]:
        return self._there

    async def _devices(self) -> list[tuple[HostName, HeldDevice]]:
        return [
            (host, one) for host, one in await super()._devices() if one.holder and one.holder.server in self._about
        ]

    async def _entries(self, ids: Sequence[ServerId]) -> Mapping[ServerId, Entry]:
        return self._known

    async def _records(self) -> Rows:
        return await self._of_these("rows", self._cells, lambda: rows_of(self._world, self._about))
