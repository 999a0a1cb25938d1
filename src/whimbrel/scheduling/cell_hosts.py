"""The hosts of one cell as one process knows them: read once, then fed by their changes.

Invariant: only a cell that answers with an error is down. For a slow cell, the result of the last read is used until
the current read ends, unless this process has changed one of its hosts since.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
import structlog

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cell
from whimbrel.ports.stores.fleet import Load
from whimbrel.ports.stores.hosts import HostNews
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.scheduling.single_flight import SingleFlight

DOWN_FOR_S = 5.0
"""How long a cell that answered with an error is not asked again."""
OUTDATED_AFTER_S = 30.0
"""How long the last read is used; less than SERVICE_DOWN_S, after which all its hosts would seem down."""

WHOLE_EACH_S = 60.0
"""How often everything is read, in case a change was missed; in between only changes are read."""
BEATS_EACH_S = 5.0
"""How often the heartbeats of all hosts are read; they are no changes, because they change all the time."""

log = structlog.get_logger(__name__)

ImageProperties = dict[str, Mapping[str, str]]
Known = TypeVar("Known")


@dataclass(frozen=True, kw_only=True)
class CellHosts:
    """The hosts of a cell as of one read. What a read did not change is the same object as in the read before."""

    began: float
    changes: int  # this process's changes to the cell's hosts when the read began
    hosts: Sequence[Host]
    loads: Mapping[HostName, Load]
    images: Mapping[HostName, Mapping[str, int]]
    mark: int  # of the cell's news
    whole_at: float  # when everything was read
    beats_at: float  # when the heartbeats were read
    has_images: bool
    newest: int  # number of the newest change when everything was read
    forgets_until: int  # the same of the full read before: older changes are not requested any more

    def after(self, news: HostNews) -> "CellHosts":
        """Return this with the news."""
        if not news.changed:
            return self
        found, known = {host.name: host for host in news.hosts}, {host.name: host for host in self.hosts}
        differs = any(found.get(name) != known.get(name) for name in news.changed)
        hosts = sorted({**_without(known, news), **found}.values(), key=lambda host: host.number)
        return replace(
            self,
            hosts=hosts if differs else self.hosts,
            loads={**_without(self.loads, news), **news.loads},
            images={**_without(self.images, news), **news.images},
        )

    def after_beats(self, beats: Mapping[HostName, tuple[float, dict[str, float]]]) -> "CellHosts":
        """Return this with these heartbeats and metrics."""
        hosts = []
        for host in self.hosts:
            seen_at, metrics = beats.get(host.name, (host.seen_at, host.metrics))
            hosts.append(msgspec.structs.replace(host, seen_at=seen_at, metrics=metrics))
        return replace(self, hosts=hosts)


def _without(known: Mapping[HostName, Known], news: HostNews) -> dict[HostName, Known]:
    return {name: value for name, value in known.items() if name not in news.changed}


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
        began, changes = self._clock.now(), self.cell.hosts.changes
        try:
            last = await self._next(began, changes, weighs_images)
            await self._learn_images(last)
        except Unavailable as error:
            self._went_down(error.reason)
            raise
        finally:
            self._is_slow = False
        self._came_up()
        self._last = last
        return last

    async def _next(self, began: float, changes: int, weighs_images: bool) -> CellHosts:
        """Read everything, or, while the last full read is recent, what changed since the last read."""
        last, hosts = self._last, self.cell.hosts
        if last is None or began - last.whole_at >= WHOLE_EACH_S or weighs_images != last.has_images:
            if last and last.forgets_until:
                await hosts.forget_news(last.forgets_until)  # every reader has read everything since
            news = await hosts.news(None, images=weighs_images)
            return CellHosts(
                began=began,
                changes=changes,
                hosts=news.hosts,
                loads=news.loads,
                images=news.images,
                mark=news.mark,
                whole_at=began,
                beats_at=began,
                has_images=weighs_images,
                newest=news.newest,
                forgets_until=last.newest if last else 0,
            )
        news = await hosts.news(last.mark, images=weighs_images)
        current = last.after(news)
        if began - last.beats_at >= BEATS_EACH_S:
            current = replace(current.after_beats(await hosts.beats()), beats_at=began)
        return replace(current, began=began, changes=changes, mark=news.mark)

    async def _learn_images(self, cell: CellHosts) -> None:
        """Read the properties of new images from one server of each."""
        if not cell.has_images:
            return
        for image in {image for of_host in cell.images.values() for image in of_host} - self._properties.keys():
            for server in await self.cell.servers.find(ServerQuery(image_id=image, limit=1)):
                self._properties[image] = server.image_properties

    def _went_down(self, why: str) -> None:
        if not self._told_down:
            log.warning("no servers are placed in a cell that does not answer", cell=self.cell.name, why=why)
        self._told_down = True
        self._down_until = self._clock.now() + DOWN_FOR_S

    def _came_up(self) -> None:
        if self._told_down:
            log.info("servers are placed in a cell again", cell=self.cell.name)
        self._told_down = False
