"""What consumers hold in OpenStack Placement's own database, and the providers that no compute node has."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.nova_databases.record_rows import seconds_of
from whimbrel.adapters.sql.placement_transfer import openstack_tables as tables
from whimbrel.doctor.nova_records import OF_PORTS, Allocation, Allocations, Fleet, LostProvider, Owner

_a, _c, _r = tables.allocations.c, tables.consumers.c, tables.resource_classes.c
_provider = tables.providers.alias("provider")
_root = tables.providers.alias("root")
_ALLOCATIONS = (
    sa.select(
        _a.consumer_id, _a.used, _a.created_at, _a.updated_at, _c.generation, _c.created_at.label("known_at"),
        _c.updated_at.label("changed_at"), _provider.c.uuid, _root.c.uuid.label("root"), _r.name,
        tables.projects.c.external_id.label("project"), tables.users.c.external_id.label("user"),
    )
    .join(_provider, _provider.c.id == _a.resource_provider_id)
    .join(_root, _root.c.id == _provider.c.root_provider_id, isouter=True)
    .join(tables.resource_classes, _r.id == _a.resource_class_id)
    .join(tables.consumers, _c.uuid == _a.consumer_id, isouter=True)
    .join(tables.projects, tables.projects.c.id == _c.project_id, isouter=True)
    .join(tables.users, tables.users.c.id == _c.user_id, isouter=True)
)  # fmt: skip


def read(
    connection: sa.Connection, where: Callable[[sa.Column[Any]], sa.ColumnElement[bool]]
) -> dict[str, Allocations]:
    """Return what the consumers hold that `where` selects, by id."""
    rows: dict[str, list[Allocation]] = {}
    seen: dict[str, tuple[int | None, float]] = {}
    owners: dict[str, Owner] = {}
    for row in connection.execute(_ALLOCATIONS.where(where(_a.consumer_id))):
        id = row.consumer_id.lower()
        held = Allocation((row.root or row.uuid).lower(), row.uuid.lower(), row.name, row.used)
        rows.setdefault(id, []).append(held)
        touched = seconds_of(row.created_at, row.updated_at, row.known_at, row.changed_at)
        owners[id] = Owner(row.project, row.user)
        seen[id] = (row.generation, max(touched, seen.get(id, (None, 0.0))[1]))
    return {id: Allocations(seen[id][0], sorted(found), seen[id][1], owners[id]) for id, found in rows.items()}


def left(connection: sa.Connection, where: Callable[[sa.Column[Any]], sa.ColumnElement[bool]]) -> dict[str, float]:
    """Return the consumers that `where` selects and that hold nothing, by id, and when they were written."""
    held = sa.select(_a.consumer_id).where(_a.consumer_id == _c.uuid).exists()
    statement = sa.select(_c.uuid, _c.created_at, _c.updated_at).where(where(_c.uuid), ~held)
    return {row.uuid.lower(): seconds_of(row.created_at, row.updated_at) for row in connection.execute(statement)}


def bandwidth_holders(connection: sa.Connection) -> list[str]:
    """Return the consumers of resources that ports ask for."""
    statement = sa.select(_a.consumer_id).join(tables.resource_classes, _r.id == _a.resource_class_id)
    rows = connection.execute(statement.where(_r.name.startswith(OF_PORTS, autoescape=True)).distinct())
    return sorted(row.consumer_id.lower() for row in rows)


def lost_providers(connection: sa.Connection, fleet: Fleet, deleted: Mapping[str, float]) -> Sequence[LostProvider]:
    """Return trees of providers of compute nodes that are gone.

    deleted: uuids of deleted compute nodes, and when they were.
    """
    p, names = tables.providers.c, {node.name: node for node in fleet.nodes}
    rows = connection.execute(sa.select(p.id, p.uuid, p.name, p.root_provider_id, p.created_at, p.updated_at)).all()
    lost = {
        row.id: row
        for row in rows
        if row.root_provider_id in (row.id, None)
        and fleet.node(row.uuid.lower()) is None
        and (row.uuid.lower() in deleted or row.name in names)
    }
    members = {id: [row for row in rows if id in (row.id, row.root_provider_id)] for id in lost}
    found = []
    for id, tree in members.items():
        held = sa.select(_a.consumer_id).where(_a.resource_provider_id.in_([each.id for each in tree])).distinct()
        uuid = lost[id].uuid.lower()
        found.append(
            LostProvider(
                uuid=uuid,
                name=lost[id].name,
                below=[each.uuid for each in sorted(tree, key=lambda each: each.id, reverse=True) if each.id != id],
                holders=sorted(row.consumer_id.lower() for row in connection.execute(held)),
                namesake=names.get(lost[id].name),
                touched=max(deleted.get(uuid, 0.0), *(seconds_of(each.created_at, each.updated_at) for each in tree)),
            )
        )
    return found
