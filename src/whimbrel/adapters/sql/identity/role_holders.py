"""Roles: a change or the removal of one is at once in the tokens of its holders.

Invariant: as in store.py: each change locks the groups and users that it touches and updates their tokens before it
commits.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.identity.groups import LOCK_GROUP
from whimbrel.adapters.sql.identity.records_by_id import RecordStore, delete, update
from whimbrel.adapters.sql.identity.rows import LOCK_USER, record_of, select_by
from whimbrel.adapters.sql.identity.tokens import end_application_credentials, refresh_tokens
from whimbrel.adapters.sql.tables.identity import (
    application_credentials,
    assignments,
    group_assignments,
    group_members,
    roles,
    tokens,
)
from whimbrel.ports.services.identity import Changes, Role

Scopes = list[tuple[str, str]]
"""User and project of each assignment of a role."""

_LOCK_ROLE = select_by(roles, "id").with_for_update()
_GROUPS = sa.select(group_assignments.c.group_id).where(group_assignments.c.role_id == sa.bindparam("role")).distinct()
_SCOPES = (
    sa.select(assignments.c.user_id, assignments.c.project_id)
    .where(assignments.c.role_id == sa.bindparam("role"))
    .union(
        sa.select(group_members.c.user_id, group_assignments.c.project_id)
        .join(group_assignments, group_assignments.c.group_id == group_members.c.group_id)
        .where(group_assignments.c.role_id == sa.bindparam("role"))
    )
)


class RoleStore(RecordStore):
    """Implements the methods of IdentityStore for roles."""

    async def roles(self, **wanted: Any) -> list[Role]:
        return await self._select(Role, roles, wanted)

    async def role(self, role_id: str) -> Role:
        return await self._get(Role, roles, "role", role_id)

    async def add_role(self, role: Role) -> None:
        async with self._db.write() as tx:
            await tx.run(sa.insert(roles), msgspec.structs.asdict(role))

    async def change_role(self, role_id: str, changes: Changes) -> Role:
        async with self._locked(role_id) as (tx, before, scopes):
            await update(tx, roles, role_id, changes)
            role = record_of(Role, await tx.row(select_by(roles, "id"), {"id": role_id}), "role", role_id)
            if role.name != before.name:
                await _rename_in_credentials(tx, before.name, role.name)
                for user_id, project_id in scopes:
                    await refresh_tokens(tx, user_id, project_id)
        return role

    async def remove_role(self, role_id: str) -> None:
        async with self._locked(role_id) as (tx, _, scopes):
            for table in (assignments, group_assignments):
                await tx.run(sa.delete(table).where(table.c.role_id == role_id))
            for user_id, project_id in scopes:
                await end_application_credentials(tx, user_id, project_id)
                await refresh_tokens(tx, user_id, project_id)
            await delete(tx, roles, "role", role_id)

    @asynccontextmanager
    async def _locked(self, role_id: str) -> AsyncIterator[tuple[Tx, Role, Scopes]]:
        """Lock a role and all its holders, in the order of assignments. Begin again if it was assigned meanwhile."""
        while True:
            async with self._db.write() as tx:
                groups, scopes = await _locked_holders(tx, role_id)
                role = record_of(Role, await tx.row(_LOCK_ROLE, {"id": role_id}), "role", role_id)
                if (await _groups(tx, role_id), await _scopes(tx, role_id)) == (groups, scopes):
                    yield tx, role, scopes
                    return


async def _locked_holders(tx: Tx, role_id: str) -> tuple[list[str], Scopes]:
    """Lock groups and users that have a role. Return the groups, and user and project of each assignment of it.

    A group without members has no scope, but its first member gets the role.
    """
    groups = await _groups(tx, role_id)
    for group_id in groups:
        await tx.row(LOCK_GROUP, {"id": group_id})
    scopes = await _scopes(tx, role_id)
    for user_id in sorted({user_id for user_id, _ in scopes}):
        await tx.row(LOCK_USER, {"id": user_id})
    return groups, scopes


async def _groups(tx: Tx, role_id: str) -> list[str]:
    return sorted(row.group_id for row in await tx.rows(_GROUPS, {"role": role_id}))


async def _scopes(tx: Tx, role_id: str) -> Scopes:
    return sorted((row.user_id, row.project_id) for row in await tx.rows(_SCOPES, {"role": role_id}))


async def _rename_in_credentials(tx: Tx, before: str, name: str) -> None:
    """Rename a role in application credentials. Their tokens end: programs log in again."""
    for row in await tx.rows(sa.select(application_credentials.c.id, application_credentials.c.roles), {}):
        if before in row.roles:
            renamed = sorted(name if each == before else each for each in row.roles)
            this = application_credentials.c.id == row.id
            await tx.run(sa.update(application_credentials).where(this).values(roles=renamed))
            await tx.run(sa.delete(tokens).where(tokens.c.application_credential_id == row.id))
