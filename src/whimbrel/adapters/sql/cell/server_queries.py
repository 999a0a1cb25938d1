"""Builds the SELECT statement of a server query: filters, order, and marker."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import bindparam

from whimbrel.adapters.sql.cell.server_rows import record_values, tag_line
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.cell import servers
from whimbrel.domain import server_states
from whimbrel.domain.server import Server
from whimbrel.ports.stores.servers import ServerQuery


def _listing(query: ServerQuery) -> sa.Select[Any]:
    return _page(_filtered(sa.select(servers.c.record, servers.c.standing, servers.c.id), query), query)


def _filtered(statement: sa.Select[Any], query: ServerQuery) -> sa.Select[Any]:
    equal = {
        servers.c.project_id: query.project_id,
        servers.c.user_id: query.user_id,
        servers.c.host: query.host,
        servers.c.flavor_id: query.flavor_id,
        servers.c.image_id: query.image_id,
        servers.c.zone: query.zone,
        servers.c.key_name: query.key_name,
        servers.c.hostname: query.hostname,
        servers.c.reservation_id: query.reservation_id,
        servers.c.locked: query.locked,
        servers.c.created_at: query.created_at,
        servers.c.launched_at: query.launched_at,
        servers.c.terminated_at: query.terminated_at,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if query.deleted is not None:
        conditions.append(_is_deleted(query) if query.deleted else servers.c.deleted_at.is_(None))
    if query.soft_deleted is False:
        conditions.append(servers.c.vm_state != server_states.SOFT_DELETED)
    if query.ids is not None:
        conditions.append(servers.c.id.in_(query.ids))
    if query.vm_states is not None:
        conditions.append(servers.c.vm_state.in_(query.vm_states))
    if query.task_states is not None:
        conditions.append(sa.func.coalesce(servers.c.task_state, "").in_([t or "" for t in query.task_states]))
    if query.states is not None:
        conditions.append(sa.or_(sa.false(), *(_in_state(*state) for state in query.states)))
    if query.changed_since is not None:
        conditions.append(servers.c.updated_at >= query.changed_since)
    if query.changed_before is not None:
        conditions.append(servers.c.updated_at <= query.changed_before)
    if query.launched_before is not None:
        conditions.append(servers.c.launched_at < query.launched_before)
    if query.ended_since is not None:
        ended_later = servers.c.terminated_at >= query.ended_since
        conditions.append(sa.or_(servers.c.terminated_at.is_(None), ended_later))
    return statement.where(*conditions, *_tagged(query))


def _is_deleted(query: ServerQuery) -> sa.ColumnElement[bool]:
    deleted = servers.c.deleted_at.is_not(None)
    return sa.or_(deleted, servers.c.vm_state == server_states.SOFT_DELETED) if query.soft_deleted else deleted


def _in_state(vm_state: str, task_state: str | None, exact: bool) -> sa.ColumnElement[bool]:
    if exact:
        return sa.and_(servers.c.vm_state == vm_state, servers.c.task_state == task_state)
    others = server_states.overriding_task_states(vm_state)
    plain = sa.func.coalesce(servers.c.task_state, "").not_in(others)
    return sa.and_(servers.c.vm_state == vm_state, plain)


def _tagged(query: ServerQuery) -> list[sa.ColumnElement[bool]]:
    def has(tag: str) -> sa.ColumnElement[bool]:
        # LIKE is not used: it is case-insensitive in SQLite.
        return sa.func.replace(servers.c.tags, f"\n{tag_line(tag)}\n", "") != servers.c.tags

    conditions = [has(tag) for tag in query.tags]
    if query.tags_any:
        conditions.append(sa.or_(*(has(tag) for tag in query.tags_any)))
    if query.not_tags:
        conditions.append(sa.not_(sa.and_(*(has(tag) for tag in query.not_tags))))
    if query.not_tags_any:
        conditions.append(sa.not_(sa.or_(*(has(tag) for tag in query.not_tags_any))))
    return conditions


def _page(statement: sa.Select[Any], query: ServerQuery) -> sa.Select[Any]:
    keys = [(_sorted_by(name, query), direction, name) for name, direction in query.sort if name in servers.c]
    for column, direction, _ in keys:
        ordered = column.desc() if direction == "desc" else column.asc()
        statement = statement.order_by(ordered.nulls_first() if direction == "asc" else ordered.nulls_last())
    if query.after is not None:
        statement = statement.where(_beyond(keys, query.after, query))
    if query.limit is not None:
        statement = statement.limit(query.limit)
    return statement


def _sorted_by(name: str, query: ServerQuery) -> Any:
    if name == "zone" and query.zone_order:
        return sa.case(query.zone_places, value=servers.c.zone)
    return servers.c[name]


def _beyond(keys: Sequence[tuple[Any, str, str]], marker: Server, query: ServerQuery) -> sa.ColumnElement[bool]:
    """Return the condition that a row follows the marker in this order. NULL sorts as the smallest value."""
    values = record_values(marker, None)
    if query.zone_order:
        values["zone"] = query.zone_places.get(marker.zone or "")
    beyond: sa.ColumnElement[bool] = sa.false()
    for column, direction, name in reversed(keys):
        value = values[name]
        if value is None:
            further = column.is_not(None) if direction == "asc" else sa.false()
            same = column.is_(None)
        else:
            is_ = sa.literal(value, column.type)  # True and False would be rendered as SQL keywords
            further = column > is_ if direction == "asc" else sa.or_(column < is_, column.is_(None))
            same = column == is_
        beyond = sa.or_(further, sa.and_(same, beyond))
    return beyond


EVERYBODY = ServerQuery()
_everybody = fixed(_listing(EVERYBODY))
_named = fixed(_listing(EVERYBODY).where(servers.c.id.in_(bindparam("b_ids", expanding=True))))
"""Statements of frequent queries: the whole cell, or servers by name."""


def asked(query: ServerQuery) -> tuple[sa.Select[Any], dict[str, Any] | None]:
    """Return the statement, and its bound values if it has any."""
    if query == EVERYBODY:
        return _everybody, None
    if query.ids is not None and replace(query, ids=None) == EVERYBODY:
        return _named, {"b_ids": list(query.ids)}
    return _listing(query), None
