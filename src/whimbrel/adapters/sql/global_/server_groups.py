"""Server groups in the global database. A server joins in the journal's transaction that accepts its create."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from msgspec.structs import asdict
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.turns import wait_for_turn
from whimbrel.adapters.sql.tables.global_ import directory, server_group_members, server_groups
from whimbrel.domain.errors import Invalid, NotFound, OverQuota
from whimbrel.domain.ids import GroupId, ProjectId, ServerId, UserId
from whimbrel.ports.stores.server_groups import ServerGroup

_g, _m = server_groups.c, server_group_members.c
_SHOWN = [_g[name] for name in ServerGroup.__struct_fields__ if name != "members"]

_GET = fixed(sa.select(*_SHOWN).where(_g.id == bindparam("group")))
_OF_SERVER = fixed(
    sa.select(*_SHOWN)
    .join_from(server_group_members, server_groups, _m.group_id == _g.id)
    .where(_m.server_id == bindparam("server"))
)
_MEMBERS = fixed(
    sa.select(_m.group_id, _m.server_id)
    .join_from(server_group_members, directory, _m.server_id == directory.c.server_id)
    .where(_m.group_id.in_(bindparam("groups", expanding=True)), directory.c.deleted_at.is_(None))
    .order_by(_m.number)
)
_ALL = fixed(sa.select(*_SHOWN).order_by(_g.number))
_COUNT = sa.select(sa.func.count()).where(_g.project_id == bindparam("project"))
_INSERT = sa.insert(server_groups)
_DELETE = sa.delete(server_groups).where(_g.id == bindparam("group"))

_LOCK_GROUP = fixed(sa.select(_g.id).where(_g.id == bindparam("group")).with_for_update())
_JOIN = fixed(sa.insert(server_group_members))
_SIZE = fixed(
    sa.select(sa.func.count())
    .join_from(server_group_members, directory, _m.server_id == directory.c.server_id)
    .where(_m.group_id == bindparam("group"), directory.c.deleted_at.is_(None))
)


class SqlServerGroups:
    """Implements ports.stores.server_groups.ServerGroups."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def create(self, group: ServerGroup, limit: int) -> None:
        values = asdict(group)
        del values["members"]
        async with self._db.write() as tx:
            await wait_for_turn(tx, f"server groups of {group.project_id}")
            if 0 <= limit <= await tx.value(_COUNT, {"project": group.project_id}):
                raise OverQuota("Quota exceeded, too many server groups.")
            await tx.run(_INSERT, values)

    async def get(self, group_id: GroupId) -> ServerGroup:
        async with self._db.read() as tx:
            row = await tx.row(_GET, {"group": group_id})
            if row is None:
                raise _missing(group_id)
            [group] = await _with_members(tx, [row])
        return group

    async def find(self, project_id: ProjectId | None, offset: int = 0, limit: int | None = None) -> list[ServerGroup]:
        is_all = project_id is None and not offset and limit is None
        query = _ALL if is_all else _ALL.offset(offset).limit(limit)
        if project_id is not None:
            query = query.where(_g.project_id == project_id)
        async with self._db.read() as tx:
            return await _with_members(tx, await tx.rows(query))

    async def of_server(self, server_id: ServerId) -> ServerGroup | None:
        row = await self._db.row(_OF_SERVER, {"server": server_id})
        return None if row is None else ServerGroup(**row._mapping)

    async def count(self, project_id: ProjectId, user_id: UserId | None = None) -> int:
        query = _COUNT if user_id is None else _COUNT.where(_g.user_id == user_id)
        count: int = await self._db.value(query, {"project": project_id})
        return count

    async def delete(self, group_id: GroupId) -> None:
        async with self._db.write() as tx:
            if not (await tx.run(_DELETE, {"group": group_id})).rowcount:
                raise _missing(group_id)


async def join(tx: Tx, group_id: GroupId, server_id: ServerId, limit: int) -> None:
    """Add a server, whose directory entry exists already, to a group. limit: maximum group size, -1: unlimited.

    Raises: Invalid: the group is gone; OverQuota.
    """
    if await tx.value(_LOCK_GROUP, {"group": group_id}) is None:
        raise Invalid(_missing(group_id).reason)
    await tx.run(_JOIN, {"group_id": group_id, "server_id": server_id})
    if 0 <= limit < await tx.value(_SIZE, {"group": group_id}):
        raise OverQuota("Quota exceeded, too many servers in group.")


async def _with_members(tx: Tx, rows: Sequence[Any]) -> list[ServerGroup]:
    if not rows:
        return []
    found: dict[GroupId, list[ServerId]] = {row.id: [] for row in rows}
    for group, server in await tx.rows(_MEMBERS, {"groups": list(found)}):
        found[group].append(server)
    return [ServerGroup(**row._mapping, members=tuple(found[row.id])) for row in rows]


def _missing(group_id: GroupId) -> NotFound:
    return NotFound(f"Instance group {group_id[:100]} could not be found.")
