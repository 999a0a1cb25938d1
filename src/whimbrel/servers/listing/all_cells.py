"""Read the servers of all cells as one list.

Invariant: each server is in it once, however many cells have a record of it. A record marked as the only one is
accepted. Doubtful servers (with a copy, being created, or with a home that changed during the read) are read again
in the cell that the directory names, until none is doubtful. So a move that switches between the reads of two
databases neither hides its server nor shows it twice.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from whimbrel.domain.ids import CellName, ServerId
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.stores.directory import Entry
from whimbrel.ports.stores.servers import Reading, ServerQuery
from whimbrel.servers.listing.cell_fanout import ask_all
from whimbrel.servers.listing.query_matching import matches
from whimbrel.servers.listing.sort_order import Order

SPARE = 1.25
"""Cells are asked for their share of a page times this factor; cells with more of the page are asked again."""

LEAST_SHARE = 20


@dataclass
class _Source:
    """How far one cell has been read."""

    query: ServerQuery
    found: dict[ServerId, Server] = field(default_factory=dict)
    last: Server | None = None
    has_more: bool = True

    def add(self, reading: Reading) -> None:
        self.found |= {server.id: server for server in reading.servers}
        self.last = reading.servers[-1] if reading.servers else self.last
        self.has_more = self.query.limit is not None and len(reading.servers) >= self.query.limit

    def go_on(self, number: int) -> None:
        """Set the number of servers to read next."""
        self.query = replace(self.query, after=self.last, limit=max(number, LEAST_SHARE))


class Listed(Struct, frozen=True):
    """A list of servers. unreachable: cells left out. absent: on request, the directory entries of servers in these."""

    servers: list[Server]
    unreachable: frozenset[CellName] = frozenset()
    absent: Sequence[Entry] = ()


class AllCells:
    """One reading of a list; create one for each."""

    def __init__(self, cloud: Cloud, query: ServerQuery) -> None:
        self._cloud = cloud
        self._query = query
        self._order = Order(query)
        # Servers requested by id are read in their cells; no other cell needs to be asked.
        self._sources = {} if query.ids is not None else self._one_for_each_cell()
        self._unreachable: frozenset[CellName] = frozenset()
        self._nowhere: dict[ServerId, Server] = {}  # servers without a cell
        self._sure: dict[ServerId, Server | None] = {}  # resolved doubts; None: not in the list
        self._number = 0

    def _one_for_each_cell(self) -> dict[CellName, _Source]:
        cells, limit = list(self._cloud.cells), self._query.limit
        if limit is not None and len(cells) > 1:
            limit = min(limit, max(int(limit / len(cells) * SPARE), LEAST_SHARE))
        return {name: _Source(replace(self._query, limit=limit)) for name in cells}

    async def take(self, *, with_absent: bool = False) -> Listed:
        """Return the list: sorted, after the marker, limited. Raises: Unavailable: the directory does not answer."""
        await self._begin()
        doubtful, due, limit = set(self._query.ids or ()), set(self._sources), self._query.limit
        while True:
            await self._settle(doubtful | await self._read(due))
            page = self._page()
            due = {name for name, source in self._sources.items() if self._goes_on(source, page)}
            if due:
                doubtful = set()
                continue
            if not (with_absent and self._unreachable):
                return Listed(page[:limit], self._unreachable)
            absent = await self._cloud.directory.residents(sorted(self._unreachable), self._query.project_id, limit)
            doubtful = await self._changed()
            if not doubtful:
                return Listed(page[:limit], self._unreachable, absent)

    async def _begin(self) -> None:
        """Read the switch number first: later changes are doubtful. Read servers without a cell before they get one."""
        directory, query = self._cloud.directory, self._query
        self._number = (await directory.switched_since(None)).number
        if query.ids is None:
            self._nowhere = {server.id: server for server in await directory.unplaced(query.project_id)}

    async def _read(self, cells: Iterable[CellName]) -> set[ServerId]:
        """Read on in these cells; return the doubtful servers."""

        async def read(cell: Cell) -> Reading:
            return await cell.servers.read(self._sources[cell.name].query)

        answers = await ask_all(self._cloud, read, sorted(cells))
        self._leave_out(answers.unreachable)
        doubtful: set[ServerId] = set()
        for name, reading in answers.of.items():
            doubtful |= reading.copied
            doubtful |= {server.id for server in reading.servers if server.vm_state == "building"}
            self._sources[name].add(reading)
        return doubtful

    def _leave_out(self, unreachable: frozenset[CellName]) -> None:
        self._unreachable |= unreachable
        self._sources = {name: source for name, source in self._sources.items() if name not in unreachable}

    async def _settle(self, doubtful: set[ServerId]) -> None:
        """Read the doubtful servers in their cells, and again those with a home that changed in the meantime."""
        doubtful = doubtful | await self._changed()
        while doubtful:
            await self._read_at_home(doubtful)
            doubtful = await self._changed()

    async def _changed(self) -> set[ServerId]:
        """Return the servers with a home that changed since the last call."""
        switches = await self._cloud.directory.switched_since(self._number)
        self._number = switches.number
        if self._query.ids is not None:
            return set(switches.homes) & set(self._query.ids)
        now = set(await self._cloud.directory.unplaced_ids(self._query.project_id))
        elsewhere = {id for id in now - set(self._nowhere) if id not in self._sure or _cell_of(self._sure[id])}
        return set(switches.homes) | elsewhere

    async def _read_at_home(self, doubtful: set[ServerId]) -> None:
        entries = await self._cloud.directory.entries(sorted(doubtful))
        self._sure |= dict.fromkeys(doubtful)
        homes: dict[CellName, list[ServerId]] = {}
        for id, entry in entries.items():
            if entry.cell:
                homes.setdefault(entry.cell, []).append(id)
            elif entry.unplaced and entry.deleted_at is None:
                self._sure[id] = entry.unplaced if self._is_listed(entry.unplaced) else None

        async def read(cell: Cell) -> Reading:
            return await cell.servers.read(replace(self._query, ids=homes[cell.name], limit=None))

        answers = await ask_all(self._cloud, read, homes)
        self._leave_out(answers.unreachable)
        for reading in answers.of.values():
            self._sure |= {server.id: server for server in reading.servers}

    def _is_listed(self, server: Server) -> bool:
        """Check a record without a cell as the stores check theirs."""
        after = self._query.after
        return matches(server, self._query) and (after is None or self._order.is_before(after, server))

    # Current page

    def _page(self) -> list[Server]:
        found = {id: server for id, server in self._nowhere.items() if self._is_listed(server)}
        for source in self._sources.values():
            found |= source.found
        for id, server in self._sure.items():
            if server:
                found[id] = server
            else:
                found.pop(id, None)
        return self._order.sorted(found.values())

    def _goes_on(self, source: _Source, page: Sequence[Server]) -> bool:
        """Check whether a cell may have more servers of this page, and set how many to read."""
        limit, last = self._query.limit, source.last
        if not source.has_more or limit is None or last is None:
            return False
        certain = bisect_left(page, True, key=lambda server: self._order.is_before(last, server))
        source.go_on(limit - certain)
        return certain < limit


def _cell_of(server: Server | None) -> CellName | None:
    return server.cell if server else None
