"""Invitations and keys of hosts in the global database.

Invariant: an invitation is used at most once, whoever asks at the same time.
"""

from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.upserts import upserts
from whimbrel.adapters.sql.tables.global_ import host_invitations as invitations
from whimbrel.adapters.sql.tables.global_ import host_keys as keys
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.ids import HostName
from whimbrel.ports.stores.host_keys import HostKey, Invitation

_INVITE = sa.insert(invitations)
_FORGET_UNUSED = sa.delete(invitations).where(
    invitations.c.host == sa.bindparam("of_host"), invitations.c.used_at.is_(None)
)
_OF_HOST = sa.select(invitations).where(invitations.c.host == sa.bindparam("of_host"))
_USE = (
    sa.update(invitations)
    .where(
        invitations.c.token_hash == sa.bindparam("token"),
        invitations.c.used_at.is_(None),
        invitations.c.expires_at > sa.bindparam("now"),
    )
    .values(used_at=sa.bindparam("now"))
    .returning(*invitations.c)
)
_ADMIT = upserts(keys, ["host"], [column.name for column in keys.c if column.name != "host"])
_ALL = sa.select(keys)
_GET = sa.select(keys).where(keys.c.host == sa.bindparam("of_host"))
_RETIRE = (
    sa.update(keys)
    .where(keys.c.host == sa.bindparam("of_host"), keys.c.retired_at.is_(None))
    .values(retired_at=sa.bindparam("now"))
)


class SqlHostKeys:
    """Implements ports.stores.host_keys.HostKeys."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._admit = _ADMIT[db.dialect]

    async def invite(self, invitation: Invitation) -> None:
        async with self._db.write() as tx:
            await tx.run(_FORGET_UNUSED, {"of_host": invitation.host})
            await tx.run(_INVITE, msgspec.structs.asdict(invitation))

    async def invitations(self, host: HostName) -> list[Invitation]:
        return [Invitation(**row._mapping) for row in await self._db.rows(_OF_HOST, {"of_host": host})]

    async def join(self, token_hash: str, public_key: str, now: float) -> HostKey:
        try:
            async with self._db.write() as tx:
                used = await tx.row(_USE, {"token": token_hash, "now": now})
                if used is None:
                    raise NotFound("There is no such invitation, or it was used or has expired.")
                key = HostKey(host=used.host, cell=used.cell, public_key=public_key, joined_at=now)
                await tx.run(self._admit, msgspec.structs.asdict(key))
        except Conflict:
            raise Conflict(f"The key {public_key} is another host's.") from None
        return key

    async def all(self) -> list[HostKey]:
        found = [_key(row) for row in await self._db.rows(_ALL)]
        return sorted(found, key=lambda key: key.host)  # databases collate letters differently

    async def get(self, host: HostName) -> HostKey:
        row = await self._db.row(_GET, {"of_host": host})
        if row is None:
            raise NotFound(f"Host {host} has never joined.")
        return _key(row)

    async def retire(self, host: HostName, now: float) -> None:
        async with self._db.write() as tx:
            await tx.run(_FORGET_UNUSED, {"of_host": host})
            await tx.run(_RETIRE, {"of_host": host, "now": now})


def _key(row: Any) -> HostKey:
    return HostKey(**row._mapping)
