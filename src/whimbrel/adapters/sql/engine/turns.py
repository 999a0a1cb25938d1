"""Named locks for transactions that count, or choose among, rows that do not exist yet.

On PostgreSQL two such transactions would read at the same time. On SQLite writers exclude each other already.
"""

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed

_NAME = sa.bindparam("name", type_=sa.String)
_lock = sa.func.pg_advisory_xact_lock
_IN_DATABASE = fixed(sa.select(_lock(sa.func.hashtext(_NAME))))
_IN_SCHEMA = fixed(sa.select(_lock(sa.func.hashtext(sa.func.current_schema().concat(_NAME)))))


async def wait_for_turn(tx: Tx, name: str) -> None:
    """Lock this name until the transaction ends."""
    if tx.dialect == "postgresql":
        await tx.tell(_IN_DATABASE, {"name": name})


async def wait_for_turn_in_schema(tx: Tx, name: str) -> None:
    """Lock this name within the transaction's schema until the transaction ends."""
    if tx.dialect == "postgresql":
        await tx.tell(_IN_SCHEMA, {"name": f" {name}"})
