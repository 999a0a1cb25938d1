"""Announces what the journal has: one process at a time, in the order of each server, at least once.

Invariants: what was not confirmed by the broker stays marked, and is sent again under the same id. Nothing waits for
this work: a broker that is away, or a cell that is down, delays notifications and nothing else.
"""

import structlog

from whimbrel.domain.errors import NotFound, Unavailable, WorldError
from whimbrel.domain.ids import ServerId
from whimbrel.domain.run import Action
from whimbrel.domain.server import Server
from whimbrel.notifications.changed_objects import ChangedObjects
from whimbrel.notifications.composition import Setting, all_of_occurrence, of_action
from whimbrel.notifications.host_metrics import HostMetrics
from whimbrel.notifications.occurrences import merged, occurrences
from whimbrel.notifications.usage_audits import UsageAudits
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.notifications import Notification, NotificationSink
from whimbrel.ports.stores.announcements import Announcements, Marked
from whimbrel.saga.step import SagaRegistry
from whimbrel.servers.listing import cell_fanout

log = structlog.get_logger(__name__)

LEASE_S = 10.0
PAGE = 50
"""Servers whose runs are read at once."""
OBJECTS_S = 10.0
"""How often what has no runs is looked through for changes."""


class Announcer:
    """Sends notifications while it has the lease. All its state is in the store."""

    def __init__(
        self,
        cloud: Cloud,
        announcements: Announcements,
        sink: NotificationSink,
        registry: SagaRegistry,
        name: str,
        here: str = "localhost",
        objects: ChangedObjects | None = None,
        audits: UsageAudits | None = None,
        metrics: HostMetrics | None = None,
    ) -> None:
        """name: the owner of its lease. here: the host of this process, as consumers know it.

        objects, audits, metrics: what else is announced.
        """
        self._cloud = cloud
        self._announcements = announcements
        self._sink = sink
        self._registry = registry
        self._name = name
        self._here = here
        self._objects = objects
        self._audits = audits
        self._metrics = metrics
        self._objects_due = 0.0
        self._stuck: set[ServerId] = set()  # whose notifications could not be composed
        self._is_away = False  # whether the broker was away the last time

    async def announce(self) -> int:
        """Send what is marked, unless another process does. Return how many notifications were sent.

        Raises: Unavailable: the global database does not answer.
        """
        sent, after = 0, None
        while await self._announcements.hold(self._name, self._cloud.clock.now(), LEASE_S):
            page = await self._announcements.marked(after, PAGE)
            for marked in page:
                count = await self._announce_one(marked)
                if count is None:
                    return sent
                sent += count
                if not await self._announcements.hold(self._name, self._cloud.clock.now(), LEASE_S):
                    return sent
            if len(page) < PAGE:
                return sent + await self._announce_objects()
            after = page[-1].server_id
        if self._objects:
            self._objects.forget()
        return sent

    async def _announce_objects(self) -> int:
        """Announce what has no runs, if it is time. Return how many notifications were sent."""
        now = self._cloud.clock.now()
        if now < self._objects_due:
            return 0
        self._objects_due = now + OBJECTS_S
        is_versioned = self._cloud.rules.notifications.sends_versioned
        try:
            sent = await self._objects.announce() if self._objects and is_versioned else 0
            sent += await self._audits.announce() if self._audits else 0
            return sent + (await self._metrics.announce() if self._metrics and is_versioned else 0)
        except Unavailable as trouble:
            self._note_away(trouble.reason)
            return 0

    async def close(self) -> None:
        """Leave the work to other processes."""
        try:
            await self._announcements.release(self._name)
        except WorldError as trouble:
            log.info("the lease of notifications expires by itself", reason=trouble.reason)
        await self._sink.close()

    async def _announce_one(self, marked: Marked) -> int | None:
        """Send what is marked of a server. Return how many; None: the broker is away."""
        try:
            due, dropped = await self._compose(marked)
        except Unavailable:
            return 0  # its cell is down: it is tried again in the next round
        except Exception:
            if marked.server_id not in self._stuck:
                log.exception("a bug; this server is not announced, the others are", server=marked.server_id)
            self._stuck.add(marked.server_id)
            return 0
        for notification in due:
            try:
                await self._sink.send(notification)
            except Unavailable as trouble:
                self._note_away(trouble.reason)
                return None
        if self._is_away:
            log.info("the message broker answers again; notifications are sent")
            self._is_away = False
        if dropped:
            log.warning("notifications were dropped", server=marked.server_id, count=dropped)
        await self._announcements.note(marked, len(due), dropped)
        return len(due)

    def _note_away(self, reason: str) -> None:
        if not self._is_away:  # once per outage
            log.warning("the message broker is away; notifications are kept and sent later", reason=reason)
        self._is_away = True

    async def _compose(self, marked: Marked) -> tuple[list[Notification], int]:
        """Return the notifications to send, in order, and how many are not sent: too old, or without a record.

        Raises: Unavailable: the cell of the server does not answer.
        """
        rules = self._cloud.rules.notifications
        oldest = self._cloud.clock.now() - rules.backlog_s
        histories = [
            occurrences(each.run, self._registry.of(each.run), rules.notify_on_state_change) for each in marked.runs
        ]
        all_due = [
            (marked.runs[number].run, what)
            for number, what in merged(histories)
            if what.entry >= marked.runs[number].announced
        ]
        recent = [(run, what) for run, what in all_due if what.at >= oldest]
        asked = [each for each in marked.actions if each.action.started_at >= oldest]
        dropped = len(all_due) - len(recent)
        if not recent and not asked:
            return [], dropped
        try:
            setting = await self._setting(marked.server_id, any(run.action != what.request_id for run, what in recent))
        except NotFound:
            return [], dropped + len(recent)
        timed = [(what.at, told) for run, what in recent for told in all_of_occurrence(what, run, setting)]
        for each in asked:
            if rules.sends_versioned and (told := of_action(each.action, each.number, setting)):
                place = next((n for n, (at, _) in enumerate(timed) if at > each.action.started_at), len(timed))
                timed.insert(place, (each.action.started_at, told))
        return [notification for _, notification in timed], dropped

    async def _setting(self, server_id: ServerId, has_more_requests: bool) -> Setting:
        """Raises: NotFound: the server has no record; Unavailable."""
        cloud = self._cloud
        record = await self._record(server_id)
        requests: dict[str, Action] = {}
        if has_more_requests:  # such as the confirm of a resize
            requests = {action.request_id: action for action in await cloud.journal.actions(server_id)}
        return Setting(
            record=record,
            zones={zone.id: zone.name for zone in await cloud.zones.all()},
            fingerprint=await self._fingerprint(record),
            requests=requests,
            rules=cloud.rules.notifications,
            here=self._here,
        )

    async def _record(self, server_id: ServerId) -> Server:
        """Return the record of a server, also of a deleted one. Raises: NotFound; Unavailable."""
        entry = await self._cloud.directory.entry(server_id, deleted_too=True)
        if entry.unplaced is not None:
            return entry.unplaced
        if entry.cell is None:
            raise NotFound(f"server {server_id} has no record any more")
        return await cell_fanout.ask(self._cloud, entry.cell, lambda cell: cell.servers.get(server_id))

    async def _fingerprint(self, record: Server) -> str:
        if record.key_name is None:
            return ""
        try:
            return (await self._cloud.keypairs.get(record.user_id, record.key_name)).fingerprint
        except NotFound:
            return ""
