"""The laws after each event of a large cloud: looked at for those servers only with which something is being done.

Law: what an event can change is about a server that has a run which is not over, or had one at the look before; the
rest is looked at every so often, and at the end. What a look costs depends on how much goes on, not on how large the
cloud is.
"""

from collections.abc import Mapping, Sequence

from whimbrel.domain.errors import NotFound
from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import ConsumerId, HostName, ServerId
from whimbrel.domain.pci import HeldDevice
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.directory import Entry
from whimbrel.ports.journal import RunFilter
from whimbrel.ports.placement import Allocation
from whimbrel.sim.invariants import Invariants, rows_of
from whimbrel.sim.seen import Rows

LATEST_RUNS = 3
"""How many runs of a server are looked at, the newest first: one that is over may have left something."""


class Watch(Invariants):
    _about: tuple[ServerId, ...] = ()
    _known: Mapping[ServerId, Entry] = {}
    _there: Sequence[tuple[HostName, Guest]] = ()

    async def look(self, after: str) -> None:
        """Check the laws for the servers with which something is or was just being done. Raises: Violation."""
        open_runs = await self._world.cloud.journal.find(RunFilter(only_open=True))
        going = {run.subject for run in open_runs}
        ended = sorted(set(self._about) - going)
        self._about = (*sorted(going), *ended)
        self._there = self._world.simulated.guests_of(self._about)
        runs = [run for run in open_runs if run.subject in going]
        runs += [run for server in ended for run in await self._latest(server)]
        self._known = await self._world.cloud.directory.entries(self._about) if self._about else {}
        servers = [server for entry in self._known.values() if (server := await self._record(entry))]
        hosts = await self._once("hosts", self._cells, self._hosts)
        problems = await self._problems(runs, servers, hosts)
        self._about = tuple(sorted(going))
        self._complain(problems, after)

    async def _latest(self, server: ServerId) -> list[Run]:
        return await self._world.cloud.journal.find(RunFilter(subject=server, limit=LATEST_RUNS))

    async def _record(self, entry: Entry) -> Server | None:
        if entry.deleted_at is not None or entry.cell is None:
            return entry.unplaced
        try:
            return await self._world.cloud.cell(entry.cell).servers.get(entry.server_id)
        except NotFound:
            return None  # its record is closed already

    # Less is looked at

    async def _allocations(self, runs: list[Run], servers: list[Server]) -> list[Allocation]:
        consumers = [ConsumerId(one) for one in (*self._about, *(run.id for run in runs))]
        return await self._world.cloud.placement.allocations(consumers)

    def _guests(self) -> Sequence[tuple[HostName, Guest]]:
        return self._there

    async def _devices(self) -> list[tuple[HostName, HeldDevice]]:
        return [
            (host, one) for host, one in await super()._devices() if one.holder and one.holder.server in self._about
        ]

    async def _entries(self, ids: Sequence[ServerId]) -> Mapping[ServerId, Entry]:
        return self._known

    async def _records(self) -> Rows:
        return await rows_of(self._world, self._about)
