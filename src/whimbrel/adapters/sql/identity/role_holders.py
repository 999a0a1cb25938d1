"""Roles and their assignments: a change or the removal of one is at once in the tokens of its holders.

Invariant: as in store.py: each change locks the groups and users that it touches and updates their tokens before it
commits. Roles in the system are not copied into tokens.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.identity.groups import LOCK_GROUP, end_access, locked_members, refresh
from whimbrel.adapters.sql.identity.records_by_id import RecordStore
from whimbrel.adapters.sql.identity.rows import HOLD_PROJECT, HOLD_ROLE, LOCK_USER, find, select_by
from whimbrel.adapters.sql.identity.tokens import end_application_credentials, refresh_tokens
from whimbrel.adapters.sql.tables.identity import (
    application_credentials,
    assignments,
    group_assignments,
    group_members,
    roles,
    system_assignments,
    system_group_assignments,
    tokens,
)
from whimbrel.domain.errors import NotFound
from whimbrel.ports.services.identity import (
    AnyAssignment,
    Assignment,
    Group,
    GroupAssignment,
    Project,
    Role,
    RoleAssignment,
    SystemAssignment,
    SystemGroupAssignment,
    User,
)

Scopes = list[tuple[str, str]]
"""User and project of each assignment of a role."""

_HOLDERS: Mapping[type[msgspec.Struct], tuple[sa.Table, str, sa.Select[Any], type[User | Group]]] = {
    Assignment: (assignments, "user_id", LOCK_USER, User),
    GroupAssignment: (group_assignments, "group_id", LOCK_GROUP, Group),
    SystemAssignment: (system_assignments, "user_id", LOCK_USER, User),
    SystemGroupAssignment: (system_group_assignments, "group_id", LOCK_GROUP, Group),
}
"""The table of assignments, its column that names the holder, the statement that locks the holder, and its kind."""

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
    """Implements the methods of IdentityStore for roles and their assignments."""

    async def assignments(self, kind: type[RoleAssignment], **wanted: Any) -> list[RoleAssignment]:
        return await self._select(kind, _HOLDERS[kind][0], wanted)

    async def assign(self, assignment: AnyAssignment) -> None:
        table, column, lock, kind = _HOLDERS[type(assignment)]
        here = msgspec.structs.asdict(assignment)
        async with self._db.write() as tx:
            await find(tx, kind, here[column], lock)
            users, projects = await _locked_users(tx, assignment), _projects(assignment)
            for project_id in projects:
                await find(tx, Project, project_id, HOLD_PROJECT)
            await find(tx, Role, assignment.role_id, HOLD_ROLE)
            if await tx.row(select_by(table, *here), here) is None:
                await tx.run(sa.insert(table), here)
                await refresh(tx, users, projects)

    async def unassign(self, assignment: AnyAssignment) -> None:
        table, column, lock, _ = _HOLDERS[type(assignment)]
        here = msgspec.structs.asdict(assignment)
        async with self._db.write() as tx:
            await tx.row(lock, {"id": here[column]})
            users = await _locked_users(tx, assignment)
            done = await tx.run(sa.delete(table).where(*(table.c[name] == value for name, value in here.items())))
            if done.rowcount == 0:
                raise NotFound("Could not find role assignment.")
            await end_access(tx, users, _projects(assignment))

    @asynccontextmanager
    async def _changing(self, kind: type[msgspec.Struct], record_id: str) -> AsyncIterator[Tx]:
        """Lock a role and all its holders, in the order of assignments. Begin again if it was assigned meanwhile."""
        if kind is not Role:
            async with super()._changing(kind, record_id) as tx:
                yield tx
            return
        while True:
            async with self._db.write() as tx:
                holders = await _locked_holders(tx, record_id)
                await find(tx, Role, record_id, _LOCK_ROLE)
                if (await _groups(tx, record_id), await _scopes(tx, record_id)) == holders:
                    yield tx
                    return

    async def _after_change(self, tx: Tx, before: msgspec.Struct, after: msgspec.Struct) -> None:
        await super()._after_change(tx, before, after)
        if isinstance(before, Role) and isinstance(after, Role) and after.name != before.name:
            await _rename_in_credentials(tx, before.name, after.name)
            for user_id, project_id in await _scopes(tx, after.id):
                await refresh_tokens(tx, user_id, project_id)

    async def _before_removal(self, tx: Tx, kind: type[msgspec.Struct], record_id: str) -> None:
        await super()._before_removal(tx, kind, record_id)
        if kind is Role:
            scopes = await _scopes(tx, record_id)
            for table, *_ in _HOLDERS.values():
                await tx.run(sa.delete(table).where(table.c.role_id == record_id))
            for user_id, project_id in scopes:
                await end_application_credentials(tx, user_id, project_id)
                await refresh_tokens(tx, user_id, project_id)


async def _locked_users(tx: Tx, assignment: AnyAssignment) -> list[str]:
    """Return the users of an assignment whose holder is locked; the members of a group are locked, too."""
    if isinstance(assignment, Assignment | SystemAssignment):
        return [assignment.user_id]
    return await locked_members(tx, assignment.group_id)


def _projects(assignment: AnyAssignment) -> list[str]:
    """Return the project of an assignment; one in the system has none."""
    return [assignment.project_id] if isinstance(assignment, Assignment | GroupAssignment) else []


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
