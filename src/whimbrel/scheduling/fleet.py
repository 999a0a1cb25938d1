"""The fleet as one process knows it: read at once for all hosts, and again when it has aged or changed under our hands.

Reading ten thousand rows takes longer than a decision, so it is done once a second at most, and less often for more
hosts. What this process itself changes (a service disabled, a host in another aggregate) counts at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.catalog import Aggregates
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cell
from whimbrel.ports.fleet import Fleet, Load

MAX_AGE_S = 1.0
"""How old what is known may be, for each begun ten thousand hosts."""
HOSTS_PER_AGE = 10_000


class KnownFleet:
    """Fulfils ports.fleet.Fleets."""

    def __init__(
        self, cells: Mapping[CellName, Cell], aggregates: Aggregates, clock: Clock, default_zone: Callable[[], str]
    ) -> None:
        """default_zone: gives the id of the zone of hosts that no aggregate gives one."""
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
        return self._aggregates.changes + sum(cell.hosts.changes for cell in self._cells.values())

    def _max_age_s(self) -> float:
        assert self._known is not None
        return MAX_AGE_S * (1 + len(self._known) // HOSTS_PER_AGE)

    async def _read(self) -> Fleet:
        hosts, loads = [], dict[HostName, Load]()
        for cell in self._cells.values():
            hosts += await cell.hosts.all()
            loads |= await cell.servers.loads()
            for host, count in (await cell.devices.counts()).items():
                loads[host] = replace(loads.get(host, Load()), pci=count.offered, free_pci=count.free)
        return Fleet(hosts, await self._aggregates.all(), self._default_zone(), loads)
