"""The progress of disk copies, noted for those who watch a move. Nothing is decided by it."""

import msgspec

from whimbrel.domain.guest import DiskName
from whimbrel.domain.run import Run
from whimbrel.moves.facts import Move
from whimbrel.ports.cloud import Cloud

NOTE_EVERY_S = 2.0


class DiskCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that is under way. size_bytes: 0: unknown. rate: bytes per second, None: unknown."""

    disk: DiskName
    size_bytes: int
    percent: int
    rate: float | None = None


class CopyWatch:
    """Follows the copy of one disk; a copy that ends within NOTE_EVERY_S is not noted."""

    def __init__(self, move: Move, cloud: Cloud, disk: DiskName, size_bytes: int = 0) -> None:
        self._move, self._cloud = move, cloud
        self._disk, self._size_bytes = disk, size_bytes
        self._noted_at = cloud.clock.now()
        self._first: tuple[float, int] | None = None

    async def see(self, percent: int) -> None:
        """Note how far the copy is. Raises: Unavailable."""
        now = self._cloud.clock.now()
        if self._first is None:
            self._first = (now, percent)
        if now - self._noted_at < NOTE_EVERY_S:
            return
        self._noted_at = now
        noted = DiskCopy(disk=self._disk, size_bytes=self._size_bytes, percent=percent, rate=self._rate(now, percent))
        await self._cloud.journal.note_progress(self._move.id, self._move.epoch, msgspec.json.encode(noted), now)

    def _rate(self, now: float, percent: int) -> float | None:
        first_at, first = self._first or (now, percent)
        if now <= first_at or not self._size_bytes:
            return None
        return self._size_bytes * (percent - first) / 100 / (now - first_at)


async def disk_copy_of(cloud: Cloud, run: Run) -> DiskCopy | None:
    """Return the progress of the run's copy, None if none was noted."""
    noted = (await cloud.journal.progress([run.id])).get(run.id)
    return msgspec.json.decode(noted, type=DiskCopy) if noted else None
