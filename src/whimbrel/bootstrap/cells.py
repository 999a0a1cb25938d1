"""Opens the cells of a process: each has its own database and its own bus, on which no other cell is known.

Invariant: a cell with an unreachable database prevents no other cell from starting or working. It is down, which is
logged, and reconnects by itself. Every process opens a cell that a command adds by itself too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import structlog

from whimbrel.adapters.bus.older_agents import ReleaseCheckedAgents
from whimbrel.adapters.sql.cell.hosts import SqlHosts
from whimbrel.adapters.sql.cell.pci_devices import SqlDevices
from whimbrel.adapters.sql.cell.servers import SqlServers
from whimbrel.adapters.sql.engine.awaited import AwaitedDatabase
from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.domain.errors import Conflict, Invalid, WorldError
from whimbrel.domain.ids import CellName
from whimbrel.domain.nouns import counted
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.hosts.agent import Agents
from whimbrel.ports.stores.cells import CellInfo, Cells
from whimbrel.ports.stores.host_keys import HostKey
from whimbrel.ports.stores.journal import Journal, RunFilter
from whimbrel.settings import CloudConfig

log = structlog.get_logger(__name__)

FIRST_CELL = CellName("cell1")
"""The cell of a new cloud whose settings name none."""

CHECK_S = 2.0
"""Maximum delay until a process notices that a cell went down, came up or was added."""


@dataclass
class OpenCell:
    """A cell of this process. is_new: this process has not registered its hosts yet."""

    info: CellInfo
    cell: Cell
    database: AwaitedDatabase
    is_new: bool = True
    was_up: bool = True  # the last logged state
    complaint: str | None = None  # why its hosts could not be registered, as last logged

    @property
    def is_up(self) -> bool:
        return self.database.trouble is None


Arrived = Callable[[OpenCell], Awaitable[None]]


class OpenCells(Mapping[CellName, Cell]):
    """All cells of this process by name. Iteration is safe while cells are added."""

    def __init__(
        self,
        infos: SqlCells,
        own_url: str,
        agents: Callable[[CellName], Agents],
        clock: Clock,
        databases: Databases,
        *,
        migrates: bool = True,
    ) -> None:
        """own_url: of the cloud's database. agents: returns the bus of a cell. migrates: migrates cells to this
        schema.
        """
        self._databases = databases
        self._infos = infos
        self._own_url = own_url
        self._agents = agents
        self._clock = clock
        self._migrates = migrates
        self._open: Mapping[CellName, OpenCell] = {}

    def __getitem__(self, name: CellName) -> Cell:
        return self._open[name].cell

    def __iter__(self) -> Iterator[CellName]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def up(self) -> list[OpenCell]:
        return [cell for cell in self._open.values() if cell.is_up]

    async def open(self) -> None:
        """Open all registered cells concurrently. Raises: Unavailable, Refused: the cloud's own database."""
        await self._see_which()
        await asyncio.gather(*(self._check(cell) for cell in self._open.values()))
        for cell in self._open.values():
            if not cell.is_up and not cell.info.database:
                await cell.database.check()

    async def watch(self, arrived: Arrived) -> None:
        """Check the cells repeatedly, until cancelled."""
        while True:
            await self._clock.sleep(CHECK_S)
            await self.look(arrived)

    async def look(self, arrived: Arrived) -> None:
        """Check which cells exist, and which answer. arrived: called for each that answers for the first time.

        If it raises a WorldError, that is logged and it is called again at the next check.
        """
        try:
            await self._see_which()
        except WorldError as trouble:
            log.warning("the list of cells cannot be read", reason=trouble.reason)
        await asyncio.gather(*(self._attend(cell, arrived) for cell in self._open.values()))

    async def close(self) -> None:
        for cell in self._open.values():
            await cell.database.close()

    async def _attend(self, cell: OpenCell, arrived: Arrived) -> None:
        await self._check(cell)
        if cell.is_up and cell.is_new:
            try:
                await arrived(cell)
                cell.is_new = False
            except WorldError as trouble:
                if trouble.reason != cell.complaint:
                    log.warning("the hosts of a cell were not recorded", cell=cell.info.name, reason=trouble.reason)
                cell.complaint = trouble.reason

    async def _check(self, cell: OpenCell) -> None:
        with suppress(WorldError):
            await cell.database.check()
        if cell.was_up and not cell.is_up:
            log.warning("a cell is down", cell=cell.info.name, reason=cell.database.trouble)
        elif cell.is_up and not cell.was_up:
            log.warning("a cell is up again", cell=cell.info.name)
        cell.was_up = cell.is_up

    async def _see_which(self) -> None:
        """Open the cells that were added, if they answer, and close removed ones."""
        written = {info.name: info for info in await self._infos.all()}
        before, self._open = self._open, {name: self._open.get(name) or self._made(written[name]) for name in written}
        for name in before.keys() - written.keys():
            await before[name].database.close()

    def _made(self, info: CellInfo) -> OpenCell:
        url, schema = info.database or self._own_url, f"cell_{info.name}"
        database = AwaitedDatabase(url, schema, migrates=self._migrates, databases=self._databases)
        hosts = SqlHosts(database, info.name)
        cell = Cell(
            name=info.name,
            servers=SqlServers(database),
            hosts=hosts,
            devices=SqlDevices(database),
            agents=ReleaseCheckedAgents(self._agents(info.name), hosts.agents),
            database=database.dialect,
        )
        return OpenCell(info, cell, database)


async def name_cells(config: CloudConfig, cloud: Cloud) -> None:
    """Register the cells in the settings, and remove those that the settings no longer contain.

    Settings without any cell change none, and give a new cloud one.
    Raises: Invalid: an omitted cell has servers, moves from or to it, or hosts that have joined; or a cell with
    servers has a new database that does not contain them.
    """
    infos, now = cloud.cell_infos, cloud.clock.now()
    said = {CellName(cell.name): cell for cell in config.cells}
    known = {info.name: info for info in await infos.all()}
    if not said:
        await _ensure_one(infos, known, now)
        return
    added = {name for name, info in known.items() if not info.in_settings}
    homes = await cloud.directory.homes()
    for home, servers in homes.items():
        if home not in said and home not in added:
            raise Invalid(
                f"the settings have no cell '{home}', which has {counted(servers, 'server')} of this cloud: put it"
                " back, or use another --data-dir"
            )
    replaced = any(
        cell.database and name in known and cell.database != known[name].database for name, cell in said.items()
    )
    is_as_before = known.keys() - added <= said.keys() <= known.keys() and not replaced
    under_way = set() if is_as_before else await _under_way(cloud.journal)
    for name in sorted(under_way - said.keys() - added):
        raise Invalid(
            f"the settings have no cell '{name}', and moves from or to it are not over: put it back, and confirm or"
            " revert them first (whimbrel move list --open)"
        )
    for name, cell in said.items():
        was = known[name].database if name in known else None
        if cell.database and cell.database != was and (name in homes or name in under_way):
            await _check_replacement(name, cell.database, homes.get(name))
    left_out = known.keys() - said.keys() - added
    if left_out:
        _check_joined(left_out, await cloud.host_keys.all())
    for name in left_out:
        await infos.forget(name)
    for name, cell in said.items():
        physnets, storage = (None if some is None else frozenset(some) for some in (cell.physnets, cell.storage))
        expected = CellInfo(
            name=name,
            database=cell.database,
            enabled=cell.enabled,
            physnets=physnets,
            storage=storage,
            migration_network=cell.migration_network,
            created_at=now,
        )
        found = await infos.ensure(expected)
        if found.enabled != cell.enabled:
            log.warning(
                "a command changed a cell that the settings define differently", cell=name, enabled=found.enabled
            )


def _check_joined(left_out: Collection[CellName], keys: Iterable[HostKey]) -> None:
    """Raises: Invalid: a host has joined one of these cells."""
    for key in keys:
        if key.cell in left_out and key.retired_at is None:
            raise Invalid(
                f"the settings have no cell '{key.cell}', and host '{key.host}' has joined it: put the cell back, or"
                f" retire its hosts first (whimbrel host retire {key.host})"
            )


async def _ensure_one(infos: Cells, known: Collection[CellName], now: float) -> None:
    """Ensure that a new cloud has a cell, if the settings name none; the cells of other clouds stay as they are."""
    if not known:
        with suppress(Conflict):  # another process added it
            await infos.add(CellInfo(name=FIRST_CELL, created_at=now))


async def _under_way(journal: Journal) -> set[CellName]:
    """Return the cells of open moves, including those that await their verdict."""
    moves = [run.facts for run in await journal.find(RunFilter(only_open=True)) if isinstance(run.facts, MoveFacts)]
    return {place.cell for facts in moves for place in (facts.source, facts.target) if place}


async def _check_replacement(name: CellName, url: str, servers: int | None) -> None:
    """Raises: Invalid: the database does not contain the cell's hosts, or is unreachable.

    servers: None: the cell has none, but there are open moves from or to it.
    """
    has = counted(servers, "server") if servers else "open moves from or to it"
    database = AwaitedDatabase(url, f"cell_{name}")
    try:
        await database.check()
        known = await SqlHosts(database, name).all()
    except WorldError as trouble:
        raise Invalid(
            f"cell '{name}' has {has}, and the 'database' that it is to have now cannot be used:"
            f" {trouble.reason}; put back the one that it had, or start again when this one answers"
        ) from None
    finally:
        await database.close()
    if not known:
        raise Invalid(
            f"cell '{name}' has {has}, and the 'database' that it is to have now knows nothing of them:"
            " put back the one that it had, or move its contents first"
        )
