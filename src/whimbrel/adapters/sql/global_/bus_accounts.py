"""Accounts of the bus in the global database."""

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import inserts_if_new
from whimbrel.adapters.sql.tables.global_ import bus_accounts
from whimbrel.ports.stores.bus_accounts import BusAccount

_NAMED = bus_accounts.c.name == sa.bindparam("b_name")
_ALL = fixed(sa.select(bus_accounts).order_by(bus_accounts.c.name))
_GET = fixed(sa.select(bus_accounts).where(_NAMED))
_ADD = inserts_if_new(bus_accounts, "name")
_REPLACE = fixed(
    sa.update(bus_accounts)
    .where(_NAMED, bus_accounts.c.jwt == sa.bindparam("b_before"))
    .values(jwt=sa.bindparam("b_jwt"))
)


class SqlBusAccounts:
    """Implements ports.stores.bus_accounts.BusAccounts."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def all(self) -> list[BusAccount]:
        return [BusAccount(**row._mapping) for row in await self._db.rows(_ALL)]

    async def add(self, account: BusAccount) -> BusAccount:
        async with self._db.write() as tx:
            await tx.run(_ADD[tx.dialect], msgspec.structs.asdict(account))
            row = await tx.row(_GET, {"b_name": account.name})
        assert row, "accounts are not removed"
        return BusAccount(**row._mapping)

    async def replace_jwt(self, name: str, before: str, jwt: str) -> bool:
        async with self._db.write() as tx:
            done = await tx.run(_REPLACE, {"b_name": name, "b_before": before, "b_jwt": jwt})
        return bool(done.rowcount)
