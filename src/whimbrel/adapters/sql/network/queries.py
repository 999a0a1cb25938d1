"""Builds the SELECT statement of a list: visibility, filters, order, and marker."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.markers import behind
from whimbrel.adapters.sql.network.record_types import Kind
from whimbrel.adapters.sql.tables import network as tables
from whimbrel.ports.embedded.network_store import (
    OLDEST_FIRST,
    FloatingIp,
    Network,
    Port,
    QosPolicy,
    Query,
    R,
    Record,
    Subnet,
)

Condition = sa.ColumnElement[bool]

_IS_PUBLIC = sa.or_(tables.networks.c.shared, tables.networks.c.external)
_PUBLIC = sa.select(tables.networks.c.id).where(_IS_PUBLIC)


Wanted = Sequence[Any] | sa.BindParameter[Any]

_USUAL_ORDERS = ((("id", False),), OLDEST_FIRST)
_usual: dict[tuple[object, ...], sa.Select[Any]] = {}
"""Cached statements of common lists by shape; few, because at most one field filters them."""


def search(kind: Kind[R], query: Query) -> tuple[sa.Select[Any], Mapping[str, Any] | None]:
    """Return the statement and its values."""
    if not _is_usual(query):
        return _statement(kind, query, query.viewer, query.where), None
    order, sees_all = tuple(query.order), query.viewer is None
    shape = (kind.record, sees_all, tuple(query.where), order)
    if shape not in _usual:
        viewer = None if sees_all else sa.bindparam("viewer", type_=sa.String)
        where: dict[str, Wanted] = {name: sa.bindparam("wanted", expanding=True) for name in query.where}
        _usual[shape] = fixed(_statement(kind, query, viewer, where))
    values: dict[str, Any] = {} if sees_all else {"viewer": query.viewer}
    for wanted in query.where.values():
        values["wanted"] = list(wanted)
    return _usual[shape], values


def _is_usual(query: Query) -> bool:
    whole = not query.tags and query.after is None and query.limit is None
    plain = all(values and all(isinstance(each, str) for each in values) for values in query.where.values())
    return whole and plain and len(query.where) <= 1 and tuple(query.order) in _USUAL_ORDERS


def _statement(
    kind: Kind[R], query: Query, viewer: str | sa.BindParameter[str] | None, where: Mapping[str, Wanted]
) -> sa.Select[Any]:
    order = [(_ordered(kind.table.c[name]), name, down) for name, down in query.order]
    statement = sa.select(kind.table).order_by(*(column.desc() if down else column for column, _, down in order))
    if viewer is not None:
        statement = statement.where(_seen_by(kind, viewer))
    for name, values in where.items():
        statement = statement.where(_has(kind, name, values))
    for way, wanted in query.tags.items():
        statement = statement.where(_TAGGED[way](kind.table, wanted))
    if query.after is not None:
        last = [(column, _marked(column, getattr(query.after, name)), down) for column, name, down in order]
        statement = statement.where(behind(last))
    return statement if query.limit is None else statement.limit(query.limit)


def _seen_by(kind: Kind[Any], viewer: str | sa.BindParameter[str]) -> Condition:
    own = kind.table.c.project_id == viewer
    if kind.record is Network:
        return sa.or_(own, _IS_PUBLIC)
    if kind.record is QosPolicy:
        return sa.or_(own, kind.table.c.shared)
    if kind.record is Subnet:
        return sa.or_(own, kind.table.c.network_id.in_(_PUBLIC))
    if kind.record is Port:
        own_networks = sa.select(tables.networks.c.id).where(tables.networks.c.project_id == viewer)
        return sa.or_(own, kind.table.c.network_id.in_(own_networks))
    return own


def _has(kind: Kind[Any], name: str, values: Wanted) -> Condition:
    """Return the condition that a field, of the record or of a part of it, has one of these values."""
    if part := _PARTS.get((kind.record, name)):
        table, whose, field, further = part
        return sa.exists().where(table.c[whose] == kind.table.c.id, table.c[field].in_(values), *further)
    if (kind.record, name) == (FloatingIp, "status"):
        return sa.case((tables.floating_ips.c.fixed_port_id.is_(None), "DOWN"), else_="ACTIVE").in_(values)
    column = kind.table.c[name]
    if isinstance(values, sa.BindParameter):
        return column.in_(values)
    known = [value for value in values if value is not None]
    return sa.or_(column.in_(known), column.is_(None)) if len(known) < len(values) else column.in_(known)


_PARTS: dict[tuple[type[Record], str], tuple[sa.Table, str, str, tuple[Condition, ...]]] = {
    **{
        (Network, name): (tables.segments, "network_id", name, ())
        for name in ("network_type", "physical_network", "segmentation_id")
    },
    (Port, "ip_address"): (tables.fixed_ips, "port_id", "ip_address", ()),
    (Port, "subnet_id"): (tables.fixed_ips, "port_id", "subnet_id", ()),
    (Port, "security_group"): (tables.port_security_groups, "port_id", "security_group_id", ()),
    (Port, "bound_host"): (tables.bindings, "port_id", "host", ()),
    (Port, "host"): (tables.bindings, "port_id", "host", (tables.bindings.c.active,)),
}


def _has_tag(table: sa.Table, tag: str) -> Condition:
    return sa.exists().where(tables.tags.c.record_id == table.c.id, tables.tags.c.tag == tag)


def _has_all(table: sa.Table, wanted: Sequence[str]) -> Condition:
    return sa.and_(sa.true(), *(_has_tag(table, tag) for tag in wanted))


def _has_any(table: sa.Table, wanted: Sequence[str]) -> Condition:
    return sa.or_(sa.false(), *(_has_tag(table, tag) for tag in wanted))


_TAGGED: dict[str, Callable[[sa.Table, Sequence[str]], Condition]] = {
    "tags": _has_all,
    "tags-any": _has_any,
    "not-tags": lambda table, wanted: ~_has_all(table, wanted),
    "not-tags-any": lambda table, wanted: ~_has_any(table, wanted),
}


def _ordered(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Sort NULL as the smallest value."""
    return sa.func.coalesce(column, _least(column)) if column.nullable else column


def _least(column: sa.ColumnElement[Any]) -> Any:
    return -1 if isinstance(column.type, sa.Integer) else ""


def _marked(column: sa.ColumnElement[Any], value: Any) -> sa.ColumnElement[Any]:
    return sa.literal(_least(column) if value is None else value, column.type)
