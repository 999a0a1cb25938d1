"""Stories during which notifications are sent, by a process that is often killed after it has sent."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from msgspec.structs import replace as with_

from tools.scenarios.incarnations import Incarnations
from whimbrel.adapters.sql.global_.announcements import SqlAnnouncements
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.notifications.announcer import Announcer
from whimbrel.ports.services.notifications import Notification
from whimbrel.ports.stores.announcements import Marked
from whimbrel.sim.faults.chaos import Crash
from whimbrel.sim.world.notification_sink import MemorySink

KILLED_EVERY = 3


class KilledAnnouncements(SqlAnnouncements):
    """Kills the process that announces each few times, after it has sent and before that is noted."""

    notes = 0

    async def note(self, marked: Marked, sent: int, dropped: int) -> None:
        self.notes += 1
        if self.notes % KILLED_EVERY == 0:
            raise Crash("the process that announces")
        await super().note(marked, sent, dropped)


class Announcing:
    """Announces beside a story."""

    def __init__(self, story: Incarnations, rules: NotificationRules | None = None, *, is_killed: bool = True) -> None:
        self.story = story
        self.sink = MemorySink()
        self._rules = rules or NotificationRules(enabled=True)
        self._is_killed = is_killed
        self._set_the_scene, self._after_each = story.set_the_scene, story.after_each
        story.set_the_scene, story.after_each = self.set_the_scene, self.after_each  # type: ignore[method-assign]

    async def set_the_scene(self) -> None:
        await self._set_the_scene()
        world = self.story.world
        database = world.remains.databases["global"]
        rules = with_(world.cloud.rules, notifications=self._rules)
        world.cloud = replace(world.cloud, journal=SqlJournal(database, SAGAS, announces=True), rules=rules)
        self._announcements = (KilledAnnouncements if self._is_killed else SqlAnnouncements)(database, SAGAS)

    async def after_each(self, touch: str) -> None:
        await self._after_each(touch)
        if touch.startswith("journal."):  # else nothing was marked
            await self.announce()

    async def announce(self) -> None:
        """Announce what is due, in a new process each time."""
        announcer = Announcer(self.story.world.cloud, self._announcements, self.sink, SAGAS, "announcer", "c1")
        try:
            await announcer.announce()
        except Crash:
            return

    async def play(self) -> Any:
        """Run the story, and announce until nothing is left."""
        result = await self.story.play()
        while await self._announcements.marked(None, 1):
            await self.announce()
        return result

    @property
    def told(self) -> list[Notification]:
        """Return what was sent: each once, where it came first."""
        seen: dict[str, Notification] = {}
        for each in self.sink.sent:
            seen.setdefault(each.id, each)
        return list(seen.values())

    @property
    def events(self) -> list[str]:
        return [each.event for each in self.told]


def in_order_but_for_repeats(sent: list[Notification]) -> bool:
    """Check that each notification that is sent again is followed by those that followed it before."""
    first = {}
    for each in sent:
        first.setdefault(each.id, len(first))
    places = [first[each.id] for each in sent]
    return all(after <= before + 1 for before, after in pairwise(places))
