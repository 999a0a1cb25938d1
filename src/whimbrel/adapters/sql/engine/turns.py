"""Named locks for transactions that count, or choose among, rows that do not exist yet.

On PostgreSQL two such transactions would read at the same time. On SQLite writers exclude each other already.
"""

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed

_NAME = sa.bindparam("name", type_=sa.String)
_LOCK = fixed(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(_NAME))))


async def wait_for_turn(tx: Tx, name: str) -> None:
    """Lock this name until the transaction ends."""
    if tx.dialect == "postgresql":
        await tx.tell(_LOCK, {"name": name})


async def wait_for_turn_in_schema(tx: Tx, name: str) -> None:
    """Lock this name within the transaction's schema until the transaction ends."""
    await wait_for_turn(tx, f"{tx.schema} {name}")
