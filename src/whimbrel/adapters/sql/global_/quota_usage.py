"""The quota usage of servers. It is updated in the transaction that accepts a run."""

from typing import Any

import sqlalchemy as sa
from msgspec.structs import asdict
from sqlalchemy import bindparam

from whimbrel.adapters import server_documents
from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.global_ import directory
from whimbrel.domain import quota_excess
from whimbrel.domain.errors import Conflict
from whimbrel.domain.ids import ProjectId, ServerId, UserId
from whimbrel.domain.quota_excess import Increase
from whimbrel.domain.server import Server
from whimbrel.ports.stores.directory import Usage
from whimbrel.ports.stores.journal import Limits, QuotaUsage

_COUNTS = sa.or_(directory.c.vcpus > 0, directory.c.memory_mib > 0)
"""Soft-deleted servers count for nothing: not as an instance either."""

_enter = fixed(sa.insert(directory))
_usage = fixed(
    sa.select(
        sa.func.coalesce(sa.func.sum(sa.case((_COUNTS, 1), else_=0)), 0).label("instances"),
        sa.func.coalesce(sa.func.sum(directory.c.vcpus), 0).label("cores"),
        sa.func.coalesce(sa.func.sum(directory.c.memory_mib), 0).label("ram"),
    ).where(directory.c.project_id == bindparam("b_project"), directory.c.deleted_at.is_(None))
)
_usage_of_user = fixed(_usage.where(directory.c.user_id == bindparam("b_user")))
_account = fixed(
    sa.update(directory)
    .where(directory.c.server_id == bindparam("b_server"), directory.c.deleted_at.is_(None))
    .values(vcpus=bindparam("b_vcpus"), memory_mib=bindparam("b_memory"))
)
_account_if = fixed(
    _account.where(directory.c.vcpus == bindparam("b_was_vcpus"), directory.c.memory_mib == bindparam("b_was_memory"))
)


async def enter(tx: Tx, counted: QuotaUsage, server: Server) -> None:
    """Insert a new server into the directory, with its quota usage."""
    entry = {
        "server_id": server.id,
        "project_id": server.project_id,
        "user_id": server.user_id,
        "created_at": server.created_at,
        "unplaced": server_documents.encode(server),
        **asdict(counted),
    }
    await tx.run(_enter, entry)


async def account(tx: Tx, server_id: ServerId, counted: QuotaUsage) -> None:
    """Set the quota usage of a server, if it exists."""
    await tx.tell(_account, _values(server_id, counted))


async def book(tx: Tx, server_id: ServerId, counted: QuotaUsage) -> bool:
    """Set the quota usage of a server; return whether the server exists."""
    return bool((await tx.run(_account, _values(server_id, counted))).rowcount)


async def account_as_believed(tx: Tx, server_id: ServerId, counted: QuotaUsage, before: QuotaUsage | None) -> None:
    """Set the quota usage of a server. before: the usage that the caller expects to replace.

    Raises: Conflict: the server does not exist, or has another usage.
    """
    if before is None:
        done = await book(tx, server_id, counted)
    else:
        was = {"b_was_vcpus": before.vcpus, "b_was_memory": before.memory_mib}
        done = bool((await tx.run(_account_if, {**_values(server_id, counted), **was})).rowcount)
    if not done:
        raise Conflict(f"server {server_id} was changed meanwhile")


async def usage(tx: Tx, project_id: ProjectId, user_id: UserId | None = None) -> Usage:
    """Return the usage of a project, or of one user in it."""
    if user_id is None:
        rows = await tx.rows(_usage, {"b_project": project_id})
    else:
        rows = await tx.rows(_usage_of_user, {"b_project": project_id, "b_user": user_id})
    [(instances, cores, ram_mib)] = rows
    return Usage(instances=instances, cores=cores, ram_mib=ram_mib)


async def check(tx: Tx, project_id: ProjectId, limits: Limits, added: Usage) -> None:
    """Check the recorded usage of a project. added: the part of it that the request has just recorded.

    Raises: OverQuota.
    """
    if limits == Limits():
        return
    used = await usage(tx, project_id)
    quota_excess.check(
        (
            Increase("instances", added.instances, used.instances - added.instances, limits.instances),
            Increase("cores", added.cores, used.cores - added.cores, limits.cores),
            Increase("ram", added.ram_mib, used.ram_mib - added.ram_mib, limits.ram_mib),
        )
    )


def _values(server_id: ServerId, counted: QuotaUsage) -> dict[str, Any]:
    return {"b_server": server_id, "b_vcpus": counted.vcpus, "b_memory": counted.memory_mib}
