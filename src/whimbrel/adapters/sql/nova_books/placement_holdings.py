"""What consumers hold in OpenStack Placement's own database."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.nova_books.record_rows import seconds_of
from whimbrel.adapters.sql.placement_transfer import openstack_tables as tables
from whimbrel.doctor.nova_records import OF_PORTS, Held, Part

_a, _c, _r = tables.allocations.c, tables.consumers.c, tables.resource_classes.c
_provider = tables.providers.alias("provider")
_root = tables.providers.alias("root")
_HOLDINGS = (
    sa.select(
        _a.consumer_id, _a.used, _a.created_at, _a.updated_at, _c.generation, _c.created_at.label("known_at"),
        _c.updated_at.label("changed_at"), _provider.c.uuid, _root.c.uuid.label("root"), _r.name,
    )
    .join(_provider, _provider.c.id == _a.resource_provider_id)
    .join(_root, _root.c.id == _provider.c.root_provider_id, isouter=True)
    .join(tables.resource_classes, _r.id == _a.resource_class_id)
    .join(tables.consumers, _c.uuid == _a.consumer_id, isouter=True)
)  # fmt: skip


def read(connection: sa.Connection, where: Callable[[sa.Column[Any]], sa.ColumnElement[bool]]) -> dict[str, Held]:
    """Return what the consumers hold that `where` selects, by id."""
    parts: dict[str, list[Part]] = {}
    seen: dict[str, tuple[int | None, float]] = {}
    for row in connection.execute(_HOLDINGS.where(where(_a.consumer_id))):
        id = row.consumer_id.lower()
        parts.setdefault(id, []).append(Part((row.root or row.uuid).lower(), row.uuid.lower(), row.name, row.used))
        touched = seconds_of(row.created_at, row.updated_at, row.known_at, row.changed_at)
        seen[id] = (row.generation, max(touched, seen.get(id, (None, 0.0))[1]))
    return {id: Held(seen[id][0], sorted(found), seen[id][1]) for id, found in parts.items()}


def bandwidth_holders(connection: sa.Connection) -> list[str]:
    """Return the consumers of resources that ports ask for."""
    statement = sa.select(_a.consumer_id).join(tables.resource_classes, _r.id == _a.resource_class_id)
    rows = connection.execute(statement.where(_r.name.startswith(OF_PORTS, autoescape=True)).distinct())
    return sorted(row.consumer_id.lower() for row in rows)
