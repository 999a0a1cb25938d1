"""The fleet as one process knows it: all hosts are read once, then what changed about them.

Changes are asked for when a decision needs the fleet, at most once a second, and less often for more hosts or a busy
database. All decisions that need it concurrently wait for one read. Changes by this process (a disabled service, a
host in another aggregate) take effect immediately. While nothing changes, the fleet is the same object, with all that
was computed of it.

Invariant: an unreachable cell does not prevent placement in other cells. Its hosts are left out until it answers.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from whimbrel.domain.host import Aggregate
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cell, Rules
from whimbrel.ports.stores.catalog import Aggregates
from whimbrel.ports.stores.cells import CellInfo, Cells
from whimbrel.ports.stores.fleet import Fleet, Load
from whimbrel.scheduling.cell_hosts import CellHosts, ImageProperties, KnownCell
from whimbrel.scheduling.single_flight import SingleFlight
from whimbrel.scheduling.weighers.image_properties import MULTIPLIER as LIKE_IMAGES

MAX_AGE_S = 1.0
"""Maximum age of the fleet, for each started ten thousand hosts."""
HOSTS_PER_AGE = 10_000
MAX_AGE_IN_READS = 2.0
"""Maximum age of the fleet as a multiple of the duration of its read: no read is running half of the time."""
ANSWERS_WITHIN_S = 3.0
"""How long a decision waits for a cell's hosts."""


@dataclass(frozen=True)
class _Read:
    """What one read found."""

    aggregates: Sequence[Aggregate]
    zone_names: Mapping[str, str]
    infos: Mapping[CellName, CellInfo]
    cells: Mapping[CellName, CellHosts | None]
    properties: int  # how many images' are known

    @property
    def reachable(self) -> list[CellHosts]:
        return [cell for cell in self.cells.values() if cell is not None]

    def is_like(self, other: "_Read") -> bool:
        """Check whether a fleet of this read is one of the other."""
        same = self.properties == other.properties and self.has_hosts_of(other)
        pairs = zip(self.reachable, other.reachable, strict=False)
        return same and all(mine.loads is its.loads and mine.images is its.images for mine, its in pairs)

    def has_hosts_of(self, other: "_Read") -> bool:
        """Check whether both have the same hosts, in the same aggregates, zones and cells."""
        return (
            [_hosts_of(cell) for cell in self.cells.items()] == [_hosts_of(cell) for cell in other.cells.items()]
            and self.aggregates == other.aggregates
            and self.zone_names == other.zone_names
            and self.infos == other.infos
        )


def _hosts_of(named: tuple[CellName, CellHosts | None]) -> tuple[CellName, int | None]:
    name, cell = named
    return name, None if cell is None else id(cell.hosts)


class KnownFleet:
    """Implements ports.stores.fleet.Fleets."""

    def __init__(
        self,
        cells: Mapping[CellName, Cell],
        infos: Cells,
        aggregates: Aggregates,
        clock: Clock,
        rules: Rules,
    ) -> None:
        """infos: the rows of the cells."""
        self._rules = rules
        self._properties = ImageProperties()  # servers keep a copy of them
        self._infos = infos
        self._cells = cells
        self._known_cells: dict[CellName, KnownCell] = {}
        self._aggregates = aggregates
        self._clock = clock
        self._flight = SingleFlight[Fleet]()
        self._known: Fleet | None = None
        self._last: _Read | None = None  # keeps alive what identifies its parts
        self._usable_until = 0.0
        self._read_at = 0.0
        self._changes = -1

    async def now(self) -> Fleet:
        return self.known() or await self._flight.join(self._changed(), self._read)

    def known(self) -> Fleet | None:
        is_current = self._changed() == self._changes and self._read_at <= self._clock.now() < self._usable_until
        return self._known if is_current else None

    def _changed(self) -> int:
        known = self._infos.changes + self._aggregates.changes
        return known + sum(cell.hosts.changes for cell in self._cells.values())

    async def _read(self) -> Fleet:
        began, changes = self._clock.now(), self._changed()
        fleet = await self._read_cells()
        max_age_s = MAX_AGE_S * (1 + len(fleet) // HOSTS_PER_AGE)
        took_s = self._clock.now() - began
        self._known, self._changes, self._read_at = fleet, changes, began
        self._usable_until = began + max(max_age_s, took_s * MAX_AGE_IN_READS)
        return fleet

    async def _read_cells(self) -> Fleet:
        aggregates, zone_names = await self._aggregates.with_zone_names()
        weighs_images = self._weighs_images(aggregates)
        cells = self._known_ones()
        found = dict(
            zip(cells, await asyncio.gather(*(cell.hosts(weighs_images) for cell in cells.values())), strict=True)
        )
        infos = {cell.name: cell for cell in await self._infos.all()}
        read = _Read(aggregates, zone_names, infos, found, len(self._properties))
        before, self._last = self._last, read
        if self._known and before and read.is_like(before):
            return self._known
        loads, images = dict[HostName, Load](), dict[HostName, Mapping[str, int]]()
        for cell in read.reachable:
            loads |= cell.loads
            images |= cell.images
        properties = dict(self._properties)
        if self._known and before and read.has_hosts_of(before):
            return self._known.reloaded(loads, images, properties)
        hosts = [host for cell in read.reachable for host in cell.hosts]
        unreachable = frozenset(name for name, cell in found.items() if cell is None)
        zone = self._rules.default_availability_zone
        return Fleet(hosts, aggregates, zone, loads, infos, unreachable, images, properties, zone_names)

    def _known_ones(self) -> dict[CellName, KnownCell]:
        """Return the KnownCell of each current cell."""
        before, answers_within_s = self._known_cells, min(ANSWERS_WITHIN_S, self._rules.cell_timeout_s)
        self._known_cells = {
            name: before[name]
            if name in before and before[name].cell is cell
            else KnownCell(cell, self._clock, answers_within_s, self._properties)
            for name, cell in self._cells.items()
        }
        return self._known_cells

    def _weighs_images(self, aggregates: Iterable[Aggregate]) -> bool:
        by_rule = self._rules.scheduler.image_props_weight_multiplier != 0
        return by_rule or any(LIKE_IMAGES in each.metadata for each in aggregates)
