"""The tokens of the embedded identity service: each row contains what the token grants, current at every instant.

The roles of a token for the system are read with it: an older process, which knows none, could not keep a copy current.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.identity.rows import HOLD_PROJECT, LOCK_USER, find
from whimbrel.adapters.sql.tables.identity import (
    application_credentials,
    assignments,
    domains,
    group_assignments,
    group_members,
    roles,
    system_assignments,
    system_group_assignments,
    tokens,
)
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.identity import Grant, NewToken, Principal, Project, User, with_implied

_read_json = msgspec.json.Decoder(list[str]).decode

_LIVE = (tokens.c.digest == sa.bindparam("digest"), tokens.c.expires_at > sa.bindparam("now"))
_PRINCIPAL = fixed(
    sa.select(
        tokens.c.user_id,
        tokens.c.user_name,
        tokens.c.user_domain_id,
        tokens.c.project_id,
        tokens.c.project_name,
        tokens.c.project_domain_id,
        tokens.c.roles,
        tokens.c.expires_at,
        tokens.c.system_scope,
    ).where(*_LIVE)
)
_GRANT = _PRINCIPAL.add_columns(
    tokens.c.methods, tokens.c.audit_ids, tokens.c.issued_at, tokens.c.application_credential_id
)
_REVOKE = sa.delete(tokens).where(*_LIVE)
_PRUNE = sa.delete(tokens).where(
    tokens.c.digest.in_(
        sa.select(tokens.c.digest)
        .where(tokens.c.expires_at <= sa.bindparam("now"))
        .with_for_update(skip_locked=True)  # locked rows are being pruned by another transaction
    )
)
_ISSUE = sa.insert(tokens)

# What a token relies on is held until the token is there: a transaction that removes it waits, and then sees the token.
_DOMAIN_ENABLED = sa.select(domains.c.enabled).where(domains.c.id == sa.bindparam("id")).with_for_update(read=True)
_CREDENTIAL_ROLES = (
    sa.select(application_credentials.c.roles)
    .where(application_credentials.c.id == sa.bindparam("id"))
    .with_for_update(read=True)
)
_ROLE_NAMES = (
    sa.select(roles.c.name)
    .join(assignments, assignments.c.role_id == roles.c.id)
    .where(assignments.c.user_id == sa.bindparam("user"), assignments.c.project_id == sa.bindparam("in_project"))
    .union(
        sa.select(roles.c.name)
        .join(group_assignments, group_assignments.c.role_id == roles.c.id)
        .join(group_members, group_members.c.group_id == group_assignments.c.group_id)
        .where(
            group_members.c.user_id == sa.bindparam("user"),
            group_assignments.c.project_id == sa.bindparam("in_project"),
        )
    )
)
_SYSTEM_ROLE_NAMES = (
    sa.select(roles.c.name)
    .join(system_assignments, system_assignments.c.role_id == roles.c.id)
    .where(system_assignments.c.user_id == sa.bindparam("user"))
    .union(
        sa.select(roles.c.name)
        .join(system_group_assignments, system_group_assignments.c.role_id == roles.c.id)
        .join(group_members, group_members.c.group_id == system_group_assignments.c.group_id)
        .where(group_members.c.user_id == sa.bindparam("user"))
    )
)
_IN_SCOPE = (tokens.c.user_id == sa.bindparam("user"), tokens.c.project_id == sa.bindparam("in_project"))
_ITS_CREDENTIALS = (
    application_credentials.c.user_id == sa.bindparam("user"),
    application_credentials.c.project_id == sa.bindparam("in_project"),
)


class TokenStore:
    """Implements ports.services.identity.Identity and the token methods of IdentityStore."""

    _db: Database
    _clock: Clock

    async def principal(self, token: str) -> Principal | None:
        async with self._db.look() as tx:
            row = await tx.row(_PRINCIPAL, {"digest": _digest(token), "now": self._clock.now()})
            return None if row is None else await _principal(tx, row)

    async def grant(self, token: str) -> Grant:
        async with self._db.read() as tx:
            row = await tx.row(_GRANT, {"digest": _digest(token), "now": self._clock.now()})
            principal = None if row is None else await _principal(tx, row)
        if row is None or principal is None:
            raise NotFound("Could not find token.")
        return Grant(
            principal=principal,
            methods=_read_json(row.methods),
            audit_ids=_read_json(row.audit_ids),
            issued_at=row.issued_at,
            application_credential_id=row.application_credential_id,
        )

    async def issue(self, wanted: NewToken) -> Grant:
        now = self._clock.now()
        async with self._db.write() as tx:
            user = await find(tx, User, wanted.user_id, LOCK_USER)
            if not user.enabled or not await _is_enabled(tx, user.domain_id):
                raise Refused(f"The user {user.id} is disabled.")
            project = await _scope(tx, user.id, wanted.project_id)
            names: frozenset[str] = frozenset()
            if project:
                names = await _permitted_roles(tx, user.id, project.id, wanted.application_credential_id)
            elif wanted.system_scope and not (names := await _system_roles(tx, user.id)):
                raise Refused(f"User {user.id} has no access to the system")
            principal = Principal(
                user_id=user.id,
                user_name=user.name,
                user_domain_id=user.domain_id,
                project_id=project.id if project else ProjectId(""),
                project_name=project.name if project else "",
                project_domain_id=project.domain_id if project else "",
                roles=names,
                expires_at=wanted.expires_at,
                system_scope=wanted.system_scope,
            )
            grant = Grant(
                principal=principal,
                methods=list(wanted.methods),
                audit_ids=list(wanted.audit_ids),
                issued_at=now,
                application_credential_id=wanted.application_credential_id,
            )
            await tx.run(_ISSUE, _token_row(wanted.text, grant))
            await tx.run(_PRUNE, {"now": now})
        return grant

    async def revoke(self, token: str) -> None:
        async with self._db.write() as tx:
            done = await tx.run(_REVOKE, {"digest": _digest(token), "now": self._clock.now()})
            if done.rowcount == 0:
                raise NotFound("Could not find token.")


async def _scope(tx: Tx, user_id: str, project_id: str | None) -> Project | None:
    """Return the project that a token may be scoped to. Raises: NotFound; Refused."""
    if project_id is None:
        return None
    project = await find(tx, Project, project_id, HOLD_PROJECT)
    if not project.enabled or not await _is_enabled(tx, project.domain_id):
        raise Refused(f"The project {project_id} is disabled.")
    if not await _roles_in(tx, user_id, project_id):
        raise Refused(f"User {user_id} has no access to project {project_id}")
    return project


async def _roles_in(tx: Tx, user_id: str, project_id: str) -> frozenset[str]:
    rows = await tx.rows(_ROLE_NAMES, {"user": user_id, "in_project": project_id})
    return with_implied(row.name for row in rows)


async def _system_roles(tx: Tx, user_id: str) -> frozenset[str]:
    return with_implied(row.name for row in await tx.rows(_SYSTEM_ROLE_NAMES, {"user": user_id}))


async def _permitted_roles(tx: Tx, user_id: str, project_id: str, credential_id: str | None) -> frozenset[str]:
    """Return the roles of a token in a project. Raises: Refused: none is left of those of its credential."""
    names = await _roles_in(tx, user_id, project_id)
    if credential_id is None:
        return names
    row = await tx.row(_CREDENTIAL_ROLES, {"id": credential_id})
    names &= with_implied(row.roles if row else ())
    if not names:
        raise Refused(f"The application credential {credential_id} permits nothing any more.")
    return names


async def refresh_tokens(tx: Tx, user_id: str, project_id: str) -> None:
    """Update the roles in this user's tokens for this project; delete the tokens if no role is left."""
    names = await _roles_in(tx, user_id, project_id)
    scope = {"user": user_id, "in_project": project_id}
    if names:
        own = tokens.c.application_credential_id.is_(None)
        await tx.run(sa.update(tokens).where(*_IN_SCOPE, own).values(roles=_json(sorted(names))), scope)
    else:
        await tx.run(sa.delete(tokens).where(*_IN_SCOPE), scope)


async def end_application_credentials(tx: Tx, user_id: str, project_id: str) -> None:
    """Remove a user's application credentials of a project, and their tokens. As Keystone: when a role is lost."""
    scope = {"user": user_id, "in_project": project_id}
    await tx.run(sa.delete(tokens).where(*_IN_SCOPE, tokens.c.application_credential_id.is_not(None)), scope)
    await tx.run(sa.delete(application_credentials).where(*_ITS_CREDENTIALS), scope)


async def _is_enabled(tx: Tx, domain_id: str) -> bool:
    row = await tx.row(_DOMAIN_ENABLED, {"id": domain_id})
    return row is not None and bool(row.enabled)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _json(names: Iterable[str]) -> str:
    return msgspec.json.encode(list(names)).decode()


async def _principal(tx: Tx, row: Sequence[Any]) -> Principal | None:
    """Return the principal of a token; None: it is for the system, and no role there is left."""
    user_id, user_name, user_domain_id, project_id, project_name, project_domain_id, names, expires_at, system = row[:9]
    granted = await _system_roles(tx, user_id) if system else frozenset(_read_json(names))
    if system and not granted:
        return None
    return Principal(
        user_id=UserId(user_id),
        user_name=user_name,
        user_domain_id=user_domain_id,
        project_id=ProjectId(project_id or ""),
        project_name=project_name or "",
        project_domain_id=project_domain_id or "",
        roles=granted,
        expires_at=expires_at,
        system_scope=system or "",
    )


def _token_row(token: str, grant: Grant) -> dict[str, Any]:
    principal = grant.principal
    scoped = bool(principal.project_id)
    return {
        "digest": _digest(token),
        "user_id": principal.user_id,
        "user_name": principal.user_name,
        "user_domain_id": principal.user_domain_id,
        "project_id": principal.project_id if scoped else None,
        "project_name": principal.project_name if scoped else None,
        "project_domain_id": principal.project_domain_id if scoped else None,
        "roles": _json(sorted(principal.roles) if scoped else ()),
        "methods": _json(grant.methods),
        "audit_ids": _json(grant.audit_ids),
        "issued_at": grant.issued_at,
        "expires_at": principal.expires_at,
        "application_credential_id": grant.application_credential_id,
        "system_scope": principal.system_scope or None,
    }
