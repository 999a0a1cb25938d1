"""The embedded identity service's records in a database.

Invariant: what a token grants is always current. Every change first locks its user or project, and updates or removes
the dependent tokens before it commits; issuing a token takes the same locks. An assigned role cannot be deleted.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.identity.rows import (
    HOLD_PROJECT,
    HOLD_ROLE,
    LOCK_USER,
    Record,
    record_of,
    select_by,
    value_of,
)
from whimbrel.adapters.sql.identity.tokens import TokenStore, refresh_tokens
from whimbrel.adapters.sql.tables.identity import assignments, domains, projects, roles, tokens, users
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.identity import Assignment, Changes, Domain, Population, Project, Role, User

_PROJECTS_OF = (
    sa.select(projects)
    .where(projects.c.id.in_(sa.select(assignments.c.project_id).where(assignments.c.user_id == sa.bindparam("user"))))
    .order_by(projects.c.name, projects.c.id)
)


class SqlIdentity(TokenStore):
    """Implements ports.services.identity.Identity and IdentityStore."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    # Population

    async def is_empty(self) -> bool:
        async with self._db.read() as tx:
            return await tx.row(sa.select(domains.c.id).limit(1)) is None

    async def populate(self, population: Population) -> None:
        async with self._db.write() as tx:
            if await tx.row(sa.select(domains.c.id).limit(1)) is not None:
                raise Conflict("the identity service has been populated before")
            for table, records in (
                (domains, population.domains),
                (roles, population.roles),
                (projects, population.projects),
                (users, population.users),
                (assignments, population.assignments),
            ):
                await tx.run(sa.insert(table), [msgspec.structs.asdict(record) for record in records])

    async def domains(self) -> list[Domain]:
        return await self._select(Domain, domains, {})

    # Users

    async def users(self, **wanted: Any) -> list[User]:
        return await self._select(User, users, wanted)

    async def user(self, user_id: str) -> User:
        return await self._get(User, users, "user", user_id)

    async def add_user(self, user: User) -> None:
        async with self._db.write() as tx:
            await tx.run(sa.insert(users), msgspec.structs.asdict(user))

    async def change_user(self, user_id: str, changes: Changes) -> User:
        async with self._db.write() as tx:
            await _update(tx, users, user_id, changes)
            user = record_of(User, await tx.row(select_by(users, "id"), {"id": user_id}), "user", user_id)
            its = tokens.c.user_id == user_id
            if "password_hash" in changes or not user.enabled:
                await tx.run(sa.delete(tokens).where(its))
            await tx.run(sa.update(tokens).where(its).values(user_name=user.name))
        return user

    async def remove_user(self, user_id: str) -> None:
        await self._remove(users, "user", user_id)

    # Projects

    async def projects(self, **wanted: Any) -> list[Project]:
        return await self._select(Project, projects, wanted)

    async def projects_of(self, user_id: str) -> list[Project]:
        async with self._db.read() as tx:
            return [value_of(Project, row) for row in await tx.rows(_PROJECTS_OF, {"user": user_id})]

    async def project(self, project_id: str) -> Project:
        return await self._get(Project, projects, "project", project_id)

    async def add_project(self, project: Project) -> None:
        async with self._db.write() as tx:
            await tx.run(sa.insert(projects), msgspec.structs.asdict(project))

    async def change_project(self, project_id: str, changes: Changes) -> Project:
        async with self._db.write() as tx:
            await _update(tx, projects, project_id, changes)
            row = await tx.row(select_by(projects, "id"), {"id": project_id})
            project = record_of(Project, row, "project", project_id)
            its = tokens.c.project_id == project_id
            if not project.enabled:
                await tx.run(sa.delete(tokens).where(its))
            await tx.run(sa.update(tokens).where(its).values(project_name=project.name))
        return project

    async def remove_project(self, project_id: str) -> None:
        await self._remove(projects, "project", project_id)

    # Roles

    async def roles(self, **wanted: Any) -> list[Role]:
        return await self._select(Role, roles, wanted)

    async def role(self, role_id: str) -> Role:
        return await self._get(Role, roles, "role", role_id)

    async def add_role(self, role: Role) -> None:
        async with self._db.write() as tx:
            await tx.run(sa.insert(roles), msgspec.structs.asdict(role))

    async def remove_role(self, role_id: str) -> None:
        await self._remove(roles, "role", role_id)

    # Assignments

    async def assignments(self, **wanted: Any) -> list[Assignment]:
        return await self._select(Assignment, assignments, wanted)

    async def assign(self, assignment: Assignment) -> None:
        here = msgspec.structs.asdict(assignment)
        async with self._db.write() as tx:
            record_of(User, await tx.row(LOCK_USER, {"id": assignment.user_id}), "user", assignment.user_id)
            row = await tx.row(HOLD_PROJECT, {"id": assignment.project_id})
            record_of(Project, row, "project", assignment.project_id)
            record_of(Role, await tx.row(HOLD_ROLE, {"id": assignment.role_id}), "role", assignment.role_id)
            if await tx.row(select_by(assignments, *here), here) is not None:
                return
            await tx.run(sa.insert(assignments), here)
            await refresh_tokens(tx, assignment.user_id, assignment.project_id)

    async def unassign(self, assignment: Assignment) -> None:
        async with self._db.write() as tx:
            await tx.row(LOCK_USER, {"id": assignment.user_id})
            here = (column == getattr(assignment, column.name) for column in assignments.c)
            done = await tx.run(sa.delete(assignments).where(*here))
            if done.rowcount == 0:
                raise NotFound("Could not find role assignment.")
            await refresh_tokens(tx, assignment.user_id, assignment.project_id)

    # Common to all of them

    async def _select(self, kind: type[Record], table: sa.Table, wanted: Mapping[str, Any]) -> list[Record]:
        order = [table.c.name, table.c.id] if "name" in table.c else list(table.primary_key.columns)
        statement = sa.select(table).where(*(table.c[name] == value for name, value in wanted.items()))
        async with self._db.read() as tx:
            return [value_of(kind, row) for row in await tx.rows(statement.order_by(*order))]

    async def _get(self, kind: type[Record], table: sa.Table, word: str, id_: str) -> Record:
        async with self._db.read() as tx:
            return record_of(kind, await tx.row(select_by(table, "id"), {"id": id_}), word, id_)

    async def _remove(self, table: sa.Table, word: str, id_: str) -> None:
        async with self._db.write() as tx:
            await _delete(tx, table, word, id_)  # foreign keys delete assignments and tokens too


async def _update(tx: Tx, table: sa.Table, id_: str, changes: Changes) -> None:
    if changes:
        await tx.run(sa.update(table).where(table.c.id == id_).values(**changes))


async def _delete(tx: Tx, table: sa.Table, word: str, id_: str) -> None:
    done = await tx.run(sa.delete(table).where(table.c.id == id_))
    if done.rowcount == 0:
        raise NotFound(f"Could not find {word}: {id_}.")
