"""The processes of a cloud as its database has them: also when no API answers."""

import msgspec

from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import check
from whimbrel.adapters.sql.global_.processes import SqlProcesses
from whimbrel.ports.stores.processes import LEASE_S


class ListedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process. Times are seconds since 1970."""

    id: str
    role: str
    name: str
    host: str
    pid: int
    release: str
    live: bool  # whether its lease is valid; dead ones are listed for an hour
    parts: tuple[str, ...]  # those of which a cloud has one
    started_at: float
    seen_at: float


async def processes(url: str) -> list[ListedProcess]:
    """Return the processes by role and start. Raises: Refused: a database of another version; Unavailable."""
    check(url, "global")
    database = open_database(url, "global")
    try:
        store = SqlProcesses(database, SystemClock())
        live = {each.id for each in await store.live(LEASE_S)}
        found = await store.all()
    finally:
        await database.close()
    return [
        ListedProcess(
            id=each.id,
            role=each.role,
            name=each.name,
            host=each.host,
            pid=each.pid,
            release=each.release,
            live=each.id in live,
            parts=each.knows.parts,
            started_at=each.started_at,
            seen_at=each.seen_at,
        )
        for each in sorted(found, key=lambda process: (process.role, process.started_at))
    ]
