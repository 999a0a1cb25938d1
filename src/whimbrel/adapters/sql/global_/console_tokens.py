"""Tokens of consoles in the global database."""

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.tables.global_ import console_tokens as tokens
from whimbrel.domain.errors import NotFound
from whimbrel.ports.stores.console_tokens import ConsoleToken

_ADD = sa.insert(tokens)
_PRUNE = sa.delete(tokens).where(
    tokens.c.digest.in_(
        sa.select(tokens.c.digest)
        .where(tokens.c.expires_at <= sa.bindparam("now"))
        .with_for_update(skip_locked=True)  # locked rows are being pruned by another transaction
    )
)
_GET = sa.select(tokens).where(tokens.c.digest == sa.bindparam("of_digest"), tokens.c.expires_at > sa.bindparam("now"))


class SqlConsoleTokens:
    """Implements ports.stores.console_tokens.ConsoleTokens."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, token: ConsoleToken, now: float) -> None:
        async with self._db.write() as tx:
            await tx.run(_ADD, msgspec.structs.asdict(token))
            await tx.run(_PRUNE, {"now": now})

    async def get(self, digest: str, now: float) -> ConsoleToken:
        row = await self._db.row(_GET, {"of_digest": digest, "now": now})
        if row is None:
            raise NotFound("Token not found")
        return ConsoleToken(**row._mapping)
