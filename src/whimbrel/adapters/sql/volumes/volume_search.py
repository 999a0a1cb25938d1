"""Builds the statements of volume and snapshot lists: filters, order, page."""

from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.markers import behind
from whimbrel.adapters.sql.tables.volumes import attachments, snapshots, types, volume_metadata, volumes
from whimbrel.ports.embedded.volume_store import AttachmentQuery, SnapshotQuery, VolumeQuery

_TYPE_NAME = sa.select(types.c.name).where(types.c.id == volumes.c.type_id).scalar_subquery()

_Columns = dict[str, sa.ColumnElement[Any]]

# Sort keys; NULL sorts as the smallest value.
_VOLUME_ORDERS: _Columns = {
    **{name: volumes.c[name] for name in ("id", "size_gib", "status", "created_at", "updated_at", "zone")},
    "name": sa.func.coalesce(volumes.c.name, ""),
    "bootable": sa.case((volumes.c.bootable, 1), else_=0),  # databases order booleans differently
}
_SNAPSHOT_ORDERS: _Columns = {
    **{name: snapshots.c[name] for name in ("id", "size_gib", "status", "created_at", "updated_at", "volume_id")},
    "name": sa.func.coalesce(snapshots.c.name, ""),
}


def find_volumes(query: VolumeQuery) -> sa.Select[Any]:
    statement = _narrowed(sa.select(volumes), query)
    return _paged(statement, query, _VOLUME_ORDERS)


def count_volumes(query: VolumeQuery) -> sa.Select[Any]:
    return _narrowed(sa.select(sa.func.count()).select_from(volumes), query)


def page_of_attachments(query: AttachmentQuery) -> sa.Select[Any]:
    """Begin after the marker in index order: earlier rows are not read."""
    key, statement = (attachments.c.created_at, attachments.c.id), sa.select(attachments)
    for name in ("project_id", "server_id", "status"):
        if (value := getattr(query, name)) is not None:
            statement = statement.where(attachments.c[name] == value)
    if query.volume_ids is not None:
        statement = statement.where(attachments.c.volume_id.in_(query.volume_ids))
    if query.after is not None:
        statement = statement.where(sa.tuple_(*key) > sa.tuple_(query.after.created_at, query.after.id))
    return statement.order_by(*key).limit(query.limit)


def find_snapshots(query: SnapshotQuery) -> sa.Select[Any]:
    statement = sa.select(snapshots)
    if query.project_id is not None:
        statement = statement.where(snapshots.c.project_id == query.project_id)
    for name, values in query.columns.items():
        statement = statement.where(snapshots.c[name].in_(values))
    return _paged(statement, query, _SNAPSHOT_ORDERS)


def _narrowed(statement: sa.Select[Any], query: VolumeQuery) -> sa.Select[Any]:
    if query.project_id is not None:
        statement = statement.where(volumes.c.project_id == query.project_id)
    for name, values in query.columns.items():
        column = _TYPE_NAME if name == "type_name" else volumes.c[name]
        statement = statement.where(column.in_(values))
    for name, value in query.metadata.items():
        has = sa.exists().where(
            volume_metadata.c.volume_id == volumes.c.id,
            volume_metadata.c.name == name,
            volume_metadata.c.value == value,
        )
        statement = statement.where(has)
    return statement


def _paged(statement: sa.Select[Any], query: VolumeQuery | SnapshotQuery, orders: _Columns) -> sa.Select[Any]:
    if query.after is not None:
        last = [(orders[name], _order_value(query.after, name), down) for name, down in query.order]
        statement = statement.where(behind(last))
    order = [orders[name].desc() if down else orders[name].asc() for name, down in query.order]
    statement = statement.order_by(*order)
    if query.limit is not None:
        statement = statement.limit(query.limit)
    if query.offset:
        # SQLite supports OFFSET only after LIMIT.
        statement = (
            statement.offset(query.offset) if query.limit is not None else statement.limit(2**31).offset(query.offset)
        )
    return statement


def _order_value(last: Any, name: str) -> Any:
    value = getattr(last, name)
    if isinstance(value, bool):
        return int(value)
    return "" if value is None else value
