"""The embedded identity service's records in a database.

Law: what a token grants is true at every instant. Every change locks its user or project first, and changes or removes
the tokens that rested on it before it commits; issuing takes the same locks. A role that somebody has stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.database import Database, Tx
from whimbrel.adapters.sql.fixed import fixed
from whimbrel.adapters.sql.tables.identity import assignments, domains, projects, roles, tokens, users
from whimbrel.domain.errors import Conflict, NotFound, Refused
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.ports.clock import Clock
from whimbrel.ports.identity import (
    Assignment,
    Caller,
    Changes,
    Domain,
    Grant,
    NewToken,
    Population,
    Project,
    Role,
    User,
    with_implied,
)

Record = TypeVar("Record", bound=msgspec.Struct)

_read_json = msgspec.json.Decoder(list[str]).decode


def _one(table: sa.Table, *columns: str) -> sa.Select[Any]:
    return sa.select(table).where(*(table.c[name] == sa.bindparam(name) for name in columns))


_LIVE = (tokens.c.digest == sa.bindparam("digest"), tokens.c.expires_at > sa.bindparam("now"))
_CALLER = fixed(
    sa.select(
        tokens.c.user_id,
        tokens.c.user_name,
        tokens.c.user_domain_id,
        tokens.c.project_id,
        tokens.c.project_name,
        tokens.c.project_domain_id,
        tokens.c.roles,
        tokens.c.expires_at,
    ).where(*_LIVE)
)
_GRANT = _CALLER.add_columns(tokens.c.methods, tokens.c.audit_ids, tokens.c.issued_at)
_REVOKE = sa.delete(tokens).where(*_LIVE)
_PRUNE = sa.delete(tokens).where(
    tokens.c.digest.in_(
        sa.select(tokens.c.digest)
        .where(tokens.c.expires_at <= sa.bindparam("now"))
        .with_for_update(skip_locked=True)  # what somebody else is pruning is in good hands
    )
)
_ISSUE = sa.insert(tokens)

_LOCK_USER = _one(users, "id").with_for_update()
_HOLD_PROJECT = _one(projects, "id").with_for_update(read=True)
_HOLD_ROLE = _one(roles, "id").with_for_update(read=True)
_ROLE_NAMES = (
    sa.select(roles.c.name)
    .join(assignments, assignments.c.role_id == roles.c.id)
    .where(assignments.c.user_id == sa.bindparam("user"), assignments.c.project_id == sa.bindparam("in_project"))
)
_PROJECTS_OF = (
    sa.select(projects)
    .where(projects.c.id.in_(sa.select(assignments.c.project_id).where(assignments.c.user_id == sa.bindparam("user"))))
    .order_by(projects.c.name, projects.c.id)
)
_IN_SCOPE = (tokens.c.user_id == sa.bindparam("user"), tokens.c.project_id == sa.bindparam("in_project"))


class SqlIdentity:
    """Fulfils ports.identity.Identity and IdentityStore."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    # Tokens

    async def caller(self, token: str) -> Caller | None:
        async with self._db.read() as tx:
            row = await tx.row(_CALLER, {"digest": _digest(token), "now": self._clock.now()})
        return None if row is None else _caller(row)

    async def grant(self, token: str) -> Grant:
        async with self._db.read() as tx:
            row = await tx.row(_GRANT, {"digest": _digest(token), "now": self._clock.now()})
        if row is None:
            raise NotFound("Could not find token.")
        return Grant(
            caller=_caller(row),
            methods=_read_json(row.methods),
            audit_ids=_read_json(row.audit_ids),
            issued_at=row.issued_at,
        )

    async def issue(self, wanted: NewToken) -> Grant:
        now = self._clock.now()
        async with self._db.write() as tx:
            user = _record(User, await tx.row(_LOCK_USER, {"id": wanted.user_id}), "user", wanted.user_id)
            if not user.enabled:
                raise Refused(f"The user {user.id} is disabled.")
            project = await _scope(tx, user.id, wanted.project_id)
            caller = Caller(
                user_id=user.id,
                user_name=user.name,
                user_domain_id=user.domain_id,
                project_id=project.id if project else ProjectId(""),
                project_name=project.name if project else "",
                project_domain_id=project.domain_id if project else "",
                roles=await _roles_in(tx, user.id, project.id) if project else frozenset(),
                expires_at=wanted.expires_at,
            )
            grant = Grant(caller=caller, methods=list(wanted.methods), audit_ids=list(wanted.audit_ids), issued_at=now)
            await tx.run(_ISSUE, _token_row(wanted.text, grant))
            await tx.run(_PRUNE, {"now": now})
        return grant

    async def revoke(self, token: str) -> None:
        async with self._db.write() as tx:
            done = await tx.run(_REVOKE, {"digest": _digest(token), "now": self._clock.now()})
            if done.rowcount == 0:
                raise NotFound("Could not find token.")

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
            user = _record(User, await tx.row(_one(users, "id"), {"id": user_id}), "user", user_id)
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
            return [_struct(Project, row) for row in await tx.rows(_PROJECTS_OF, {"user": user_id})]

    async def project(self, project_id: str) -> Project:
        return await self._get(Project, projects, "project", project_id)

    async def add_project(self, project: Project) -> None:
        async with self._db.write() as tx:
            await tx.run(sa.insert(projects), msgspec.structs.asdict(project))

    async def change_project(self, project_id: str, changes: Changes) -> Project:
        async with self._db.write() as tx:
            await _update(tx, projects, project_id, changes)
            row = await tx.row(_one(projects, "id"), {"id": project_id})
            project = _record(Project, row, "project", project_id)
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
            _record(User, await tx.row(_LOCK_USER, {"id": assignment.user_id}), "user", assignment.user_id)
            row = await tx.row(_HOLD_PROJECT, {"id": assignment.project_id})
            _record(Project, row, "project", assignment.project_id)
            _record(Role, await tx.row(_HOLD_ROLE, {"id": assignment.role_id}), "role", assignment.role_id)
            if await tx.row(_one(assignments, *here), here) is not None:
                return
            await tx.run(sa.insert(assignments), here)
            await _refresh_tokens(tx, assignment.user_id, assignment.project_id)

    async def unassign(self, assignment: Assignment) -> None:
        async with self._db.write() as tx:
            await tx.row(_LOCK_USER, {"id": assignment.user_id})
            here = (column == getattr(assignment, column.name) for column in assignments.c)
            done = await tx.run(sa.delete(assignments).where(*here))
            if done.rowcount == 0:
                raise NotFound("Could not find role assignment.")
            await _refresh_tokens(tx, assignment.user_id, assignment.project_id)

    # Common to all of them

    async def _select(self, kind: type[Record], table: sa.Table, wanted: Mapping[str, Any]) -> list[Record]:
        order = [table.c.name, table.c.id] if "name" in table.c else list(table.primary_key.columns)
        statement = sa.select(table).where(*(table.c[name] == value for name, value in wanted.items()))
        async with self._db.read() as tx:
            return [_struct(kind, row) for row in await tx.rows(statement.order_by(*order))]

    async def _get(self, kind: type[Record], table: sa.Table, word: str, id_: str) -> Record:
        async with self._db.read() as tx:
            return _record(kind, await tx.row(_one(table, "id"), {"id": id_}), word, id_)

    async def _remove(self, table: sa.Table, word: str, id_: str) -> None:
        async with self._db.write() as tx:
            await _delete(tx, table, word, id_)  # foreign keys take assignments and tokens along


async def _scope(tx: Tx, user_id: str, project_id: str | None) -> Project | None:
    """Give the project that a token may be for. Raises: NotFound; Refused."""
    if project_id is None:
        return None
    row = await tx.row(_HOLD_PROJECT, {"id": project_id})
    project = _record(Project, row, "project", project_id)
    if not project.enabled:
        raise Refused(f"The project {project_id} is disabled.")
    if not await _roles_in(tx, user_id, project_id):
        raise Refused(f"User {user_id} has no access to project {project_id}")
    return project


async def _roles_in(tx: Tx, user_id: str, project_id: str) -> frozenset[str]:
    rows = await tx.rows(_ROLE_NAMES, {"user": user_id, "in_project": project_id})
    return with_implied(row.name for row in rows)


async def _refresh_tokens(tx: Tx, user_id: str, project_id: str) -> None:
    """Make this user's tokens for this project say what is true now; without a role there are none."""
    names = await _roles_in(tx, user_id, project_id)
    scope = {"user": user_id, "in_project": project_id}
    if names:
        await tx.run(sa.update(tokens).where(*_IN_SCOPE).values(roles=_json(sorted(names))), scope)
    else:
        await tx.run(sa.delete(tokens).where(*_IN_SCOPE), scope)


async def _update(tx: Tx, table: sa.Table, id_: str, changes: Changes) -> None:
    if changes:
        await tx.run(sa.update(table).where(table.c.id == id_).values(**changes))


async def _delete(tx: Tx, table: sa.Table, word: str, id_: str) -> None:
    done = await tx.run(sa.delete(table).where(table.c.id == id_))
    if done.rowcount == 0:
        raise NotFound(f"Could not find {word}: {id_}.")


def _record(kind: type[Record], row: sa.Row[Any] | None, word: str, id_: str) -> Record:
    if row is None:
        raise NotFound(f"Could not find {word}: {id_}.")
    return _struct(kind, row)


def _struct(kind: type[Record], row: sa.Row[Any]) -> Record:
    return kind(**row._mapping)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _json(names: Iterable[str]) -> str:
    return msgspec.json.encode(list(names)).decode()


def _caller(row: Sequence[Any]) -> Caller:
    user_id, user_name, user_domain_id, project_id, project_name, project_domain_id, names, expires_at = row[:8]
    return Caller(
        user_id=UserId(user_id),
        user_name=user_name,
        user_domain_id=user_domain_id,
        project_id=ProjectId(project_id or ""),
        project_name=project_name or "",
        project_domain_id=project_domain_id or "",
        roles=frozenset(_read_json(names)),
        expires_at=expires_at,
    )


def _token_row(token: str, grant: Grant) -> dict[str, Any]:
    caller = grant.caller
    scoped = bool(caller.project_id)
    return {
        "digest": _digest(token),
        "user_id": caller.user_id,
        "user_name": caller.user_name,
        "user_domain_id": caller.user_domain_id,
        "project_id": caller.project_id if scoped else None,
        "project_name": caller.project_name if scoped else None,
        "project_domain_id": caller.project_domain_id if scoped else None,
        "roles": _json(sorted(caller.roles)),
        "methods": _json(grant.methods),
        "audit_ids": _json(grant.audit_ids),
        "issued_at": grant.issued_at,
        "expires_at": caller.expires_at,
    }
