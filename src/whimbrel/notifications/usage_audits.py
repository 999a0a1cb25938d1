"""Accounts for all servers at the end of each audit period: `instance.exists`, as Nova's `instance_usage_audit`.

A reconciler: for each cell it keeps durably how far it came in which period. So each server that was there in the
period is accounted for once, also after a crash, and a cell that was down is made up for.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Unavailable
from whimbrel.domain.ids import CellName, ServerId
from whimbrel.domain.notification_rules import AuditPeriod
from whimbrel.domain.server import Server
from whimbrel.notifications.composition import Setting, of_account
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.ports.services.notifications import NotificationSink
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers.listing import cell_fanout

NAMESPACE = UUID("0d1c6a52-94a3-4f0e-9a57-6f1f0e0c8b4d")
"""Of message ids."""

SPACE = "usage audits"
PAGE = 500
"""Servers of a cell that are accounted for in one round, so that other notifications do not wait for long."""


class Progress(msgspec.Struct, frozen=True):
    """How far a cell is. ended: the end of the period. after: the last server; None: none yet, or all are done."""

    ended: float
    after: ServerId | None = None
    is_done: bool = False


class UsageAudits:
    def __init__(self, cloud: Cloud, keep: KeyValueStore, sink: NotificationSink, here: str) -> None:
        """here: the host of this process, the publisher of what is on no host any more."""
        self._cloud = cloud
        self._keep = keep
        self._sink = sink
        self._here = here

    async def announce(self) -> int:
        """Account for the next servers of the last completed period. Return how many notifications were sent.

        Raises: Unavailable: the broker, or the global database. A cell that does not answer is tried in the next round.
        """
        rules = self._cloud.rules.notifications
        if not rules.instance_usage_audit:
            return 0
        begin, end = last_completed(self._cloud.clock.now(), rules.instance_usage_audit_period)
        return sum([await self._announce_cell(cell, begin, end) for cell in list(self._cloud.cells)])

    async def _announce_cell(self, cell: CellName, begin: float, end: float) -> int:
        """Account for the next servers of a cell, and note how far it came."""
        stored = await self._keep.get(SPACE, cell)
        progress = msgspec.json.decode(stored, type=Progress) if stored else Progress(end)
        if progress.ended < end:
            progress = Progress(end)
        if progress.is_done:
            return 0
        try:
            page = await self._page(cell, begin, end, progress.after)
        except Unavailable:
            return 0
        sent = await self._announce_page(cell, page, begin, end)
        is_last = len(page) < PAGE
        progress = Progress(end, None if is_last else ServerId(page[-1].id), is_last)
        await self._keep.put(SPACE, cell, msgspec.json.encode(progress))
        return sent

    async def _page(self, cell: CellName, begin: float, end: float, after: ServerId | None) -> list[Server]:
        """Return the next servers of a cell that were there in the period. Raises: Unavailable: the cell."""
        query = ServerQuery(launched_before=end, ended_since=begin, deleted=None, sort=(("id", "asc"),), limit=PAGE)
        if after:
            with suppress(NotFound):  # it left the cell meanwhile: begin again, with the same ids
                marker = await cell_fanout.ask(self._cloud, cell, lambda it: it.servers.get(after))
                query = replace(query, after=marker)
        return await cell_fanout.ask(self._cloud, cell, lambda it: it.servers.find(query))

    async def _announce_page(self, cell: CellName, page: Sequence[Server], begin: float, end: float) -> int:
        entries = await self._cloud.directory.entries([ServerId(server.id) for server in page])
        zones = {zone.id: zone.name for zone in await self._cloud.zones.all()} if page else {}
        sent, rules = 0, self._cloud.rules.notifications
        for server in page:
            entry = entries.get(ServerId(server.id))
            if entry is None or entry.cell != cell or (server.host is None and server.deleted_at is None):
                continue  # a copy; or, as in Nova, offloaded: no host accounts for it
            setting = Setting(record=server, zones=zones, rules=rules, here=self._here)
            for each in of_account(begin, end, self._cloud.clock.now(), setting):
                await self._sink.send(replace(each, id=str(uuid5(NAMESPACE, f"{server.id} {end} {each.event}"))))
                sent += 1
        return sent


def last_completed(now: float, period: AuditPeriod) -> tuple[float, float]:
    """Return the begin and the end of the last period that is over, in UTC."""
    today = datetime.fromtimestamp(now, UTC).replace(minute=0, second=0, microsecond=0)
    if period == "hour":
        end = today
        begin = end - timedelta(hours=1)
    elif period == "day":
        end = today.replace(hour=0)
        begin = end - timedelta(days=1)
    elif period == "month":
        end = today.replace(day=1, hour=0)
        begin = (end - timedelta(days=1)).replace(day=1)
    else:
        end = today.replace(month=1, day=1, hour=0)
        begin = end.replace(year=end.year - 1)
    return begin.timestamp(), end.timestamp()
