"""Heartbeats: compared with the stored rows together, and written only when they change something.

Invariant: the heartbeat of an older session changes nothing. A session that is higher than the stored one was begun
before the database was restored from an older copy; it is stored again, so that orders reach the agent.
"""

import asyncio
from collections.abc import Mapping, Sequence

from whimbrel.domain.errors import Refused
from whimbrel.domain.host import BEAT_STORED_AFTER_S
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.abandoned_tasks import retrieve
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.control_plane import Beat, BeatAnswer
from whimbrel.ports.stores.hosts import LastBeat

TOGETHER_S = 0.25
"""How long a heartbeat waits for others, so that one query reads the rows of all."""

Arrived = tuple[HostName, Beat]


class Beats:
    """Answers heartbeats in batches, one for each cell at a time."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._clock = cloud.clock
        self._keeps_metrics = bool(cloud.rules.scheduler.metrics_weight_setting)
        self._waiting: dict[CellName, tuple[list[Arrived], asyncio.Task[list[BeatAnswer | None]]]] = {}

    async def answer(self, cell: CellName, host: HostName, beat: Beat) -> BeatAnswer:
        """Raises: Refused: the host is not registered; Unavailable."""
        if cell not in self._waiting:
            arrived: list[Arrived] = []
            task = asyncio.ensure_future(self._gathered(cell, arrived))
            task.add_done_callback(retrieve)
            self._waiting[cell] = arrived, task
        arrived, answers = self._waiting[cell]
        place = len(arrived)
        arrived.append((host, beat))
        found = (await asyncio.shield(answers))[place]  # others wait for the batch, too
        if found is None:
            raise Refused(f"host {host} is not registered: start its agent again")
        return found

    async def _gathered(self, cell: CellName, arrived: list[Arrived]) -> list[BeatAnswer | None]:
        try:
            await self._clock.sleep(TOGETHER_S)
        finally:
            del self._waiting[cell]
        hosts = self._cloud.cell(cell).hosts
        last = await hosts.last_beats({host for host, _ in arrived})
        ahead = {host: beat.session for host, beat in arrived if host in last and beat.session > last[host].session}
        if ahead:  # the database was restored from an older copy
            await hosts.raise_sessions(ahead)
            last = await hosts.last_beats({host for host, _ in arrived})
        newest = {
            host: beat for host, beat in arrived if host in last and beat.session == last[host].session and beat.answers
        }
        now = self._clock.now()
        due = [host for host in newest if not last[host].seen_at <= now < last[host].seen_at + BEAT_STORED_AFTER_S]
        await hosts.seen(sorted(due), now)
        if self._keeps_metrics:
            await hosts.tell({host: newest[host].metrics for host in due if newest[host].metrics != last[host].metrics})
        return _answers(arrived, last)


def _answers(arrived: Sequence[Arrived], last: Mapping[HostName, LastBeat]) -> list[BeatAnswer | None]:
    return [
        BeatAnswer(session=last[host].session, describe=beat.digest != last[host].digest) if host in last else None
        for host, beat in arrived
    ]
