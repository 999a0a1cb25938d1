"""The fleet as one process knows it: read at once for all hosts, and again when it has aged or changed under our hands.

Reading ten thousand rows takes longer than a decision, so it is done once a second at most, and less often for more
hosts. What this process itself changes (a service disabled, a host in another aggregate) counts at once.

Law: a cell that does not answer keeps nobody from being placed in another one. Its hosts are left out until it does.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.catalog import Aggregates
from whimbrel.ports.cells import Cells
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cell
from whimbrel.ports.fleet import Fleet, Load

MAX_AGE_S = 1.0
"""How old what is known may be, for each begun ten thousand hosts."""
HOSTS_PER_AGE = 10_000
DOWN_FOR_S = 5.0
"""How long a cell that did not answer is not asked again."""

log = structlog.get_logger(__name__)


class KnownFleet:
    """Fulfils ports.fleet.Fleets."""

    def __init__(
        self,
        cells: Mapping[CellName, Cell],
        infos: Cells,
        aggregates: Aggregates,
        clock: Clock,
        default_zone: Callable[[], str],
    ) -> None:
        """infos: what is written of the cells. default_zone: gives the id of the zone of hosts in no aggregate's."""
        self._infos = infos
        self._down: dict[CellName, float] = {}  # cells that did not answer -> when they are asked again
        self._cells = cells
        self._aggregates = aggregates
        self._clock = clock
        self._default_zone = default_zone
        self._known: Fleet | None = None
        self._read_at = 0.0
        self._changes = -1

    async def now(self) -> Fleet:
        changes, now = self._changed(), self._clock.now()
        if self._known is None or changes != self._changes or not 0 <= now - self._read_at < self._max_age_s():
            self._known = await self._read()
            self._changes, self._read_at = changes, now
        return self._known

    def _changed(self) -> int:
        known = self._infos.changes + self._aggregates.changes
        return known + sum(cell.hosts.changes for cell in self._cells.values())

    def _max_age_s(self) -> float:
        assert self._known is not None
        return MAX_AGE_S * (1 + len(self._known) // HOSTS_PER_AGE)

    async def _read(self) -> Fleet:
        hosts, loads = list[Host](), dict[HostName, Load]()
        for cell in list(self._cells.values()):
            if self._down.get(cell.name, 0.0) > self._clock.now():
                continue
            try:
                its_hosts, its_loads = await _hosts_of(cell)
            except Unavailable as error:
                self._went_down(cell.name, str(error))
                continue
            self._came_up(cell.name)
            hosts += its_hosts
            loads |= its_loads
        infos = {cell.name: cell for cell in await self._infos.all()}
        return Fleet(hosts, await self._aggregates.all(), self._default_zone(), loads, infos)

    def _went_down(self, name: CellName, why: str) -> None:
        if name not in self._down:
            log.warning("no servers are placed in a cell that does not answer", cell=name, why=why)
        self._down[name] = self._clock.now() + DOWN_FOR_S

    def _came_up(self, name: CellName) -> None:
        if self._down.pop(name, None) is not None:
            log.info("servers are placed in a cell again", cell=name)


async def _hosts_of(cell: Cell) -> tuple[list[Host], dict[HostName, Load]]:
    """Raises: Unavailable."""
    hosts, loads = await cell.hosts.all(), await cell.servers.loads()
    for host, count in (await cell.devices.counts()).items():
        loads[host] = replace(loads.get(host, Load()), pci=count.offered, free_pci=count.free)
    for host, failures in (await cell.hosts.failed_builds()).items():
        loads[host] = replace(loads.get(host, Load()), failed_builds=failures)
    return hosts, loads
