"""Groups of users and their members.

Invariant: as in store.py: each change locks the users that it touches and updates their tokens before it commits.
"""

from collections.abc import Iterable

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.identity.records_by_id import RecordStore
from whimbrel.adapters.sql.identity.rows import LOCK_USER, find, select_by, value_of
from whimbrel.adapters.sql.identity.tokens import end_application_credentials, refresh_tokens
from whimbrel.adapters.sql.tables.identity import group_assignments, group_members, groups, users
from whimbrel.domain.errors import NotFound
from whimbrel.ports.services.identity import Group, User

LOCK_GROUP = select_by(groups, "id").with_for_update()
_MEMBERS = (
    sa.select(users)
    .join(group_members, group_members.c.user_id == users.c.id)
    .where(group_members.c.group_id == sa.bindparam("group"))
    .order_by(users.c.name, users.c.id)
)
_MEMBER_IDS = (
    sa.select(group_members.c.user_id)
    .where(group_members.c.group_id == sa.bindparam("group"))
    .order_by(group_members.c.user_id)
)
_GROUPS_OF = (
    sa.select(groups)
    .join(group_members, group_members.c.group_id == groups.c.id)
    .where(group_members.c.user_id == sa.bindparam("user"))
    .order_by(groups.c.name, groups.c.id)
)
_PROJECT_IDS = (
    sa.select(group_assignments.c.project_id).where(group_assignments.c.group_id == sa.bindparam("group")).distinct()
)


class GroupStore(RecordStore):
    """Implements the methods of IdentityStore for groups."""

    async def members(self, group_id: str) -> list[User]:
        async with self._db.read() as tx:
            await find(tx, Group, group_id)
            return [value_of(User, row) for row in await tx.rows(_MEMBERS, {"group": group_id})]

    async def groups_of(self, user_id: str) -> list[Group]:
        return [value_of(Group, row) for row in await self._db.rows(_GROUPS_OF, {"user": user_id})]

    async def join(self, group_id: str, user_id: str) -> None:
        here = {"group_id": group_id, "user_id": user_id}
        async with self._db.write() as tx:
            await find(tx, Group, group_id, LOCK_GROUP)
            await find(tx, User, user_id, LOCK_USER)
            if await tx.row(select_by(group_members, *here), here) is None:
                await tx.run(sa.insert(group_members), here)
                await refresh(tx, [user_id], await _projects(tx, group_id))

    async def leave(self, group_id: str, user_id: str) -> None:
        async with self._db.write() as tx:
            await tx.row(LOCK_GROUP, {"id": group_id})
            await tx.row(LOCK_USER, {"id": user_id})
            here = (group_members.c.group_id == group_id, group_members.c.user_id == user_id)
            if (await tx.run(sa.delete(group_members).where(*here))).rowcount == 0:
                raise NotFound(f"Could not find user {user_id} in group {group_id}.")
            await end_access(tx, [user_id], await _projects(tx, group_id))

    async def _before_removal(self, tx: Tx, kind: type[msgspec.Struct], record_id: str) -> None:
        await super()._before_removal(tx, kind, record_id)
        if kind is Group:
            await tx.row(LOCK_GROUP, {"id": record_id})
            members, projects = await locked_members(tx, record_id), await _projects(tx, record_id)
            await tx.run(sa.delete(group_assignments).where(group_assignments.c.group_id == record_id))
            await end_access(tx, members, projects)


async def locked_members(tx: Tx, group_id: str) -> list[str]:
    """Lock the members of a group, and return their ids."""
    members = [row.user_id for row in await tx.rows(_MEMBER_IDS, {"group": group_id})]
    for user_id in members:
        await tx.row(LOCK_USER, {"id": user_id})
    return members


async def _projects(tx: Tx, group_id: str) -> list[str]:
    return [row.project_id for row in await tx.rows(_PROJECT_IDS, {"group": group_id})]


async def refresh(tx: Tx, user_ids: Iterable[str], project_ids: list[str]) -> None:
    """Update the tokens of these users for these projects."""
    for user_id in user_ids:
        for project_id in project_ids:
            await refresh_tokens(tx, user_id, project_id)


async def end_access(tx: Tx, user_ids: list[str], project_ids: list[str]) -> None:
    """Take roles out of tokens, and end the application credentials that relied on them."""
    for user_id in user_ids:
        for project_id in project_ids:
            await end_application_credentials(tx, user_id, project_id)
    await refresh(tx, user_ids, project_ids)
