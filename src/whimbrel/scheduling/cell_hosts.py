"""The hosts of one cell as one process knows them.

Invariant: only a cell that answers with an error is down. For a slow cell, the result of the last read is used until
the current read ends, unless this process has changed one of its hosts since.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cell
from whimbrel.ports.stores.fleet import Load
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.scheduling.single_flight import SingleFlight

DOWN_FOR_S = 5.0
"""How long a cell that answered with an error is not asked again."""
OUTDATED_AFTER_S = 30.0
"""How long the last read is used; less than SERVICE_DOWN_S, after which all its hosts would seem down."""

log = structlog.get_logger(__name__)

ImageProperties = dict[str, Mapping[str, str]]


@dataclass(frozen=True)
class CellHosts:
    """The result of one read of a cell."""

    began: float
    changes: int  # this process's changes to the cell's hosts when the read began
    hosts: Sequence[Host]
    loads: Mapping[HostName, Load]
    images: Mapping[HostName, Mapping[str, int]]


class KnownCell:
    def __init__(self, cell: Cell, clock: Clock, answers_within_s: float, properties: ImageProperties) -> None:
        """answers_within_s: how long a caller waits. properties: of images; extended by what is read."""
        self.cell = cell
        self._clock = clock
        self._answers_within_s = answers_within_s
        self._properties = properties
        self._flight = SingleFlight[CellHosts]()
        self._last: CellHosts | None = None
        self._is_slow = False  # a caller has timed out on the current read
        self._down_until = 0.0
        self._told_down = False

    async def hosts(self, weighs_images: bool) -> CellHosts | None:
        """Return the current hosts, or the last read ones if the cell is slow; None: it is down."""
        if self._clock.now() < self._down_until:
            return None
        if self._is_slow:
            return self._recent()
        version = (self.cell.hosts.changes, weighs_images)
        try:
            async with asyncio.timeout(self._answers_within_s):
                return await self._flight.join(version, lambda: self._read(weighs_images))
        except TimeoutError:
            self._is_slow = True
            log.warning("a cell is slow", cell=self.cell.name, waited_s=self._answers_within_s)
            return self._recent()
        except Unavailable:
            return None

    def _recent(self) -> CellHosts | None:
        """Return the result of the last read if it is still valid."""
        last = self._last
        if last is None or last.changes != self.cell.hosts.changes:
            return None
        return last if self._clock.now() - last.began < OUTDATED_AFTER_S else None

    async def _read(self, weighs_images: bool) -> CellHosts:
        cell, began, changes = self.cell, self._clock.now(), self.cell.hosts.changes
        try:
            hosts, loads = await cell.hosts.all(), await _loads(cell)
            images = await self._images() if weighs_images else {}
        except Unavailable as error:
            self._went_down(error.reason)
            raise
        finally:
            self._is_slow = False
        self._came_up()
        self._last = CellHosts(began, changes, hosts, loads, images)
        return self._last

    async def _images(self) -> dict[HostName, dict[str, int]]:
        """Count servers by host and image, and read the properties of new images from one server of each."""
        images = await self.cell.servers.images()
        for image in {image for of_host in images.values() for image in of_host} - self._properties.keys():
            for server in await self.cell.servers.find(ServerQuery(image_id=image, limit=1)):
                self._properties[image] = server.image_properties
        return images

    def _went_down(self, why: str) -> None:
        if not self._told_down:
            log.warning("no servers are placed in a cell that does not answer", cell=self.cell.name, why=why)
        self._told_down = True
        self._down_until = self._clock.now() + DOWN_FOR_S

    def _came_up(self) -> None:
        if self._told_down:
            log.info("servers are placed in a cell again", cell=self.cell.name)
        self._told_down = False


async def _loads(cell: Cell) -> dict[HostName, Load]:
    """Raises: Unavailable."""
    loads = await cell.servers.loads()
    for host, count in (await cell.devices.counts()).items():
        loads[host] = replace(loads.get(host, Load()), pci=count.offered, free_pci=count.free)
    for host, failures in (await cell.hosts.failed_builds()).items():
        loads[host] = replace(loads.get(host, Load()), failed_builds=failures)
    return loads
