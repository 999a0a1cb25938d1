"""Periodic rounds of conductors: when each last began, shared by all of them."""

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.upserts import Insert, inserts
from whimbrel.adapters.sql.tables.global_ import rounds


def _if_due(insert: Insert) -> sa.Executable:
    """Begin a round unless one began recently. A future time comes from a clock that has since been set back."""
    at = insert.excluded.at
    due = sa.or_(rounds.c.at <= at - bindparam("b_every", type_=sa.Double), rounds.c.at > at)
    return insert.on_conflict_do_update(index_elements=["name"], set_={"at": at}, where=due)


_TAKE = inserts(rounds, _if_due)


async def take(db: Database, name: str, now: float, every_s: float) -> bool:
    """Implements ports.stores.journal.Journal.take_round."""
    async with db.write() as tx:
        taken: int = (await tx.run(_TAKE[tx.dialect], {"name": name, "at": now, "b_every": every_s})).rowcount
    return taken > 0
