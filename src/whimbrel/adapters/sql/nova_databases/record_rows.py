"""Turns rows of Nova's tables into the records that the doctor judges."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.nova_databases import nova_tables as tables
from whimbrel.doctor.nova_records import Instance, Migration, Owner, Spec

_i, _m = tables.instances.c, tables.migrations.c
INSTANCES = sa.select(
    _i.uuid, _i.display_name, _i.host, _i.node, _i.vm_state, _i.task_state, _i.vcpus, _i.memory_mb,
    _i.instance_type_id, _i.image_ref, _i.hidden, _i.deleted, _i.launched_at, _i.created_at, _i.updated_at,
    _i.project_id, _i.user_id,
)  # fmt: skip
MIGRATIONS = sa.select(
    _m.uuid, _m.instance_uuid, _m.migration_type, _m.status, _m.source_compute, _m.source_node, _m.dest_compute,
    _m.dest_node, _m.cross_cell_move, _m.hidden, _m.deleted, _m.created_at, _m.updated_at,
)  # fmt: skip


def seconds_of(*times: datetime | None) -> float:
    """Return the newest of naive times in UTC."""
    return max((each.replace(tzinfo=UTC).timestamp() for each in times if each), default=0.0)


def instance(cell: str, row: Any) -> Instance:
    return Instance(
        cell=cell,
        uuid=row.uuid.lower(),
        name=row.display_name or "",
        host=row.host,
        node=row.node,
        vm_state=row.vm_state,
        task_state=row.task_state,
        vcpus=row.vcpus or 0,
        memory_mb=row.memory_mb or 0,
        flavor_id=row.instance_type_id,
        is_hidden=bool(row.hidden),
        is_deleted=bool(row.deleted),
        is_launched=row.launched_at is not None,
        boots_from_volume=not row.image_ref,
        touched=seconds_of(row.created_at, row.updated_at),
        owner=Owner(row.project_id, row.user_id),
    )


def migration(cell: str, row: Any) -> Migration:
    return Migration(
        cell=cell,
        uuid=(row.uuid or "").lower(),
        server=(row.instance_uuid or "").lower(),
        type=row.migration_type or "migration",
        status=row.status or "",
        source=row.source_compute,
        source_node=row.source_node,
        target=row.dest_compute,
        target_node=row.dest_node,
        crosses_cells=bool(row.cross_cell_move),
        is_hidden=bool(row.hidden),
        is_deleted=bool(row.deleted),
        touched=seconds_of(row.created_at, row.updated_at),
    )


class _FlavorData(msgspec.Struct):
    id: int | None = None
    flavorid: str | None = None
    extra_specs: dict[str, str] = {}


class _Flavor(msgspec.Struct):
    data: _FlavorData | None = msgspec.field(default=None, name="nova_object.data")


class _SpecData(msgspec.Struct):
    availability_zone: str | None = None
    flavor: _Flavor | None = None


class _Spec(msgspec.Struct):
    data: _SpecData | None = msgspec.field(default=None, name="nova_object.data")


class _Flavors(msgspec.Struct):
    cur: _Flavor | None = None


def spec(text: str | None) -> Spec:
    """Return what is read of a request spec; nothing of it, if it has another form."""
    try:
        data = msgspec.json.decode(text or "{}", type=_Spec).data or _SpecData()
    except msgspec.DecodeError:
        return Spec(zone=None, flavor_id=None)
    flavor = data.flavor.data if data.flavor else None
    return Spec(data.availability_zone or None, flavor.id if flavor else None, flavor.flavorid if flavor else None)


def extra_specs(text: str | None) -> Mapping[str, str] | None:
    """Return the extra specs of a server's flavor; None: they cannot be read."""
    try:
        current = msgspec.json.decode(text or "{}", type=_Flavors).cur
    except msgspec.DecodeError:
        return None
    return current.data.extra_specs if current and current.data else None


class _Rules(msgspec.Struct):
    max_server_per_host: int | str = 1


def max_per_host(rules: str | None) -> int:
    """Return how many servers of a group one host may have, by the rules of its policy."""
    try:
        return int(msgspec.json.decode(rules or "{}", type=_Rules).max_server_per_host)
    except (msgspec.DecodeError, ValueError):
        return 1
