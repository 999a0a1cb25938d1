"""Fixed interleavings of transactions on PostgreSQL: a test holds a lock until the others are done or blocked."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx

ON_POSTGRESQL = pytest.mark.parametrize("open_store", ["postgresql"], indirect=True)
"""On SQLite one transaction writes at a time: there is nothing to interleave."""

_BLOCKED = sa.text(
    """
    WITH RECURSIVE blocking(pid) AS (
        SELECT pg_backend_pid()
        UNION
        SELECT pg_locks.pid FROM pg_locks JOIN blocking ON blocking.pid = ANY (pg_blocking_pids(pg_locks.pid))
        WHERE NOT pg_locks.granted
    )
    SELECT count(*) - 1 FROM blocking
    """
)


async def wait_until_blocked(tx: Tx, *tasks: asyncio.Task[Any]) -> None:
    """Wait until each task, which has one transaction, is done or blocked by this transaction or by a blocked one."""
    while sum(not task.done() for task in tasks) > await tx.value(_BLOCKED):
        pass
