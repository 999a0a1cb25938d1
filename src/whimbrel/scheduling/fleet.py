"""The fleet as one process knows it: read at once for all hosts, and again when it has aged or changed under our hands.

Reading ten thousand rows takes longer than a decision, so it is done once a second at most, and less often for more
hosts. What this process itself changes (a service disabled, a host in another aggregate) counts at once.

Law: a cell that does not answer keeps nobody from being placed in another one. Its hosts are left out until it does.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

import structlog

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host import Aggregate, Host
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.catalog import Aggregates
from whimbrel.ports.cells import Cells
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cell, Rules
from whimbrel.ports.fleet import Fleet, Load
from whimbrel.ports.servers import ServerQuery
from whimbrel.scheduling.alike import MULTIPLIER as LIKE_IMAGES

MAX_AGE_S = 1.0
"""How old what is known may be, for each begun ten thousand hosts."""
HOSTS_PER_AGE = 10_000
ANSWERS_WITHIN_S = 3.0
"""How long a decision waits for a cell's hosts."""
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
        rules: Rules,
    ) -> None:
        """infos: what is written down of the cells."""
        self._rules = rules
        self._properties = dict[str, Mapping[str, str]]()  # of images: servers keep them as they were
        self._infos = infos
        self._down: dict[CellName, float] = {}  # cells that did not answer -> when they are asked again
        self._cells = cells
        self._aggregates = aggregates
        self._clock = clock
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
        now, silent = self._clock.now(), set[CellName]()
        hosts, loads, images = list[Host](), dict[HostName, Load](), dict[HostName, dict[str, int]]()
        aggregates = await self._aggregates.all()
        weighs_images = self._weighs_images(aggregates)
        for cell in list(self._cells.values()):
            silent.add(cell.name)  # until it has answered
            if self._down.get(cell.name, 0.0) > now:
                continue
            try:
                async with asyncio.timeout(min(ANSWERS_WITHIN_S, self._rules.cell_timeout_s)):
                    its_hosts, its_loads = await _hosts_of(cell)
                    its_images = await self._images_of(cell) if weighs_images else {}
            except (Unavailable, TimeoutError) as error:
                self._went_down(cell.name, str(error) or "it kept us waiting")
                continue
            silent.discard(cell.name)
            self._came_up(cell.name)
            hosts += its_hosts
            loads |= its_loads
            images |= its_images
        infos = {cell.name: cell for cell in await self._infos.all()}
        zone = self._rules.default_availability_zone
        return Fleet(hosts, aggregates, zone, loads, infos, frozenset(silent), images, dict(self._properties))

    def _weighs_images(self, aggregates: Iterable[Aggregate]) -> bool:
        by_rule = self._rules.scheduler.image_props_weight_multiplier != 0
        return by_rule or any(LIKE_IMAGES in each.metadata for each in aggregates)

    async def _images_of(self, cell: Cell) -> dict[HostName, dict[str, int]]:
        """Count servers by host and image, and learn what these images are like from a server of each."""
        images = await cell.servers.images()
        for image in {image for of_host in images.values() for image in of_host} - self._properties.keys():
            for server in await cell.servers.find(ServerQuery(image_id=image, limit=1)):
                self._properties[image] = server.image_properties
        return images

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
