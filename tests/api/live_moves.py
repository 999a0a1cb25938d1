"""Live migrations that stand still while somebody looks at them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.api.front import Front
from whimbrel.domain.run import Run
from whimbrel.sim.world.phases import Times

SLOW = Times(live_mib_s=100.0)
"""A migration network that takes some seconds for a small server."""

AUTO = {"host": None, "block_migration": "auto"}


class StopsAt:
    """A journal whose user does not go on from a status before it is told to."""

    def __init__(self, journal: Any, status: str) -> None:
        self._journal = journal
        self._status = status
        self.stands, self.go_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def save(self, run: Run, *more: Any, **named: Any) -> None:
        await self._journal.save(run, *more, **named)
        if run.saga == "live_migrate" and run.status == self._status != "running":
            await self._stop()

    async def note_progress(self, *noted: Any) -> None:
        """The first progress is noted when the transfer runs."""
        await self._journal.note_progress(*noted)
        if self._status == "running":
            await self._stop()

    async def _stop(self) -> None:
        self.stands.set()
        await self.go_on.wait()


async def migrate_live(front: Front, server_id: str, *, who: str = "admin", **requested: Any) -> Any:
    return await front.act(server_id, {"os-migrateLive": AUTO | requested}, who=who)


@asynccontextmanager
async def standing_at(front: Front, server_id: str, status: str) -> AsyncIterator[dict[str, Any]]:
    """Migrate a server live and yield the migration at this status; within, it goes no further. Then let it end."""
    answer = await migrate_live(front, server_id)
    assert answer.status_code == 202, answer.text
    world = front.world
    journal = StopsAt(world.cloud.journal, status)
    driver = world.engine("c1", replace(world.cloud, journal=journal))
    driving = asyncio.create_task(world.settle(driver))
    try:
        stands = asyncio.create_task(journal.stands.wait())
        await asyncio.wait((stands, driving), return_when=asyncio.FIRST_COMPLETED)
        assert stands.done(), f"it has ended without being {status}"
        [found] = (await front.get("/os-migrations?limit=1", who="admin"))["migrations"]
        assert found["status"] == status
        yield found
    finally:
        journal.go_on.set()
        await driving
