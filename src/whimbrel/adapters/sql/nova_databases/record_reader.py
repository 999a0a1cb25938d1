"""One look at the databases of a Nova: implements NovaRecords. It reads by ranges of uuids, so memory stays small."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.nova_databases import nova_tables as tables
from whimbrel.adapters.sql.nova_databases import placement_allocations, record_rows
from whimbrel.adapters.sql.nova_databases.record_rows import INSTANCES, MIGRATIONS, seconds_of
from whimbrel.doctor.allocation_checks import cpus_and_memory
from whimbrel.doctor.nova_records import (
    ENDED,
    SWAP,
    Action,
    CellMapping,
    Device,
    Fleet,
    Group,
    Instance,
    LostProvider,
    Node,
    Owner,
    Subject,
    VolumeUse,
)
from whimbrel.domain.batches import batches

PER_RANGE = 2000
PIECE = 500
HEX = "0123456789abcdef"
VOLUME_ACTIONS = ("attach_volume", "detach_volume", SWAP)

Where = Callable[[sa.Column[Any]], sa.ColumnElement[bool]]
_i, _m, _b = tables.instances.c, tables.migrations.c, tables.block_device_mapping.c
_USES = sa.select(
    _b.instance_uuid, _b.volume_id, _b.attachment_id, _b.boot_index, _b.created_at, _b.updated_at,
    (sa.func.coalesce(_b.connection_info, "null") != "null").label("was_connected"),
).where(_b.deleted == 0, _b.volume_id.is_not(None))  # fmt: skip


class RecordReader:
    """names: of cells by their row's id. uuids: of cells by name."""

    def __init__(
        self,
        api: sa.Connection,
        cells: Mapping[str, sa.Connection],
        placement: sa.Connection,
        names: Mapping[int, str],
        uuids: Mapping[str, str],
        default_zone: str,
    ) -> None:
        self._api, self._cells, self._placement, self._names = api, cells, placement, names
        self.fleet = Fleet(
            cells=uuids, nodes=self._nodes(), seen=self._seen(), zones=self._zones(), default_zone=default_zone
        )

    def count(self) -> int:
        return int(self._api.scalar(sa.select(sa.func.count()).select_from(tables.instance_mappings)) or 0)

    def all(self) -> Iterator[Sequence[Subject]]:
        digits, number = 0, self.count()
        while number > PER_RANGE * 16**digits:
            digits += 1
        for place in range(16**digits):
            yield list(self._page(_range(f"{place:0{digits}x}" if digits else "")).values())

    def some(self, ids: Sequence[str]) -> Sequence[Subject]:
        return list(self._page(lambda column: column.in_(ids)).values()) if ids else []

    def _in_cells(self, statement: sa.Select[Any]) -> Iterator[tuple[str, Any]]:
        for cell, connection in self._cells.items():
            for row in connection.execute(statement):
                yield cell, row

    # The fleet

    def _nodes(self) -> list[Node]:
        c = tables.compute_nodes.c
        statement = sa.select(c.id, c.uuid, c.host, c.hypervisor_hostname).where(c.deleted == 0, c.uuid.is_not(None))
        return [
            Node(cell, row.id, row.uuid.lower(), row.host or "", row.hypervisor_hostname or "")
            for cell, row in self._in_cells(statement)
        ]

    def _seen(self) -> dict[tuple[str, str], float]:
        c = tables.services.c
        statement = sa.select(c.host, c.last_seen_up).where(c.deleted == 0, c.binary == "nova-compute")
        return {(cell, row.host): seconds_of(row.last_seen_up) for cell, row in self._in_cells(statement)}

    def lost_providers(self) -> Sequence[LostProvider]:
        c = tables.compute_nodes.c
        gone = sa.select(c.uuid, c.hypervisor_hostname, c.deleted_at).where(c.deleted != 0, c.uuid.is_not(None))
        deleted = {row.uuid.lower(): seconds_of(row.deleted_at) for _, row in self._in_cells(gone)}
        return placement_allocations.lost_providers(self._placement, self.fleet, deleted)

    def _zones(self) -> dict[str, str]:
        h, m = tables.aggregate_hosts.c, tables.aggregate_metadata.c
        joined = tables.aggregate_hosts.join(tables.aggregate_metadata, h.aggregate_id == m.aggregate_id)
        statement = sa.select(h.host, m.value).select_from(joined).where(m.key == "availability_zone")
        return {row.host: row.value for row in self._api.execute(statement)}

    # Subjects

    def _page(self, where: Where) -> dict[str, Subject]:
        found: dict[str, Subject] = {}

        def subject(id: str) -> Subject:
            return found.setdefault(id.lower(), Subject(id=id.lower()))

        for cell, row in self._in_cells(INSTANCES.where(where(_i.uuid), _i.deleted == 0)):
            subject(row.uuid).instances.append(record_rows.instance(cell, row))
        self._read_api(where, subject)
        for id, held in placement_allocations.read(self._placement, where).items():
            subject(id).held = held
        for id, written in placement_allocations.left(self._placement, where).items():
            if id in found:  # that of an id that Nova does not know hinders nothing
                found[id].consumer_left = written
        opened = MIGRATIONS.where(where(_m.instance_uuid), _m.deleted == 0, _m.status.not_in(ENDED))
        for cell, row in self._in_cells(opened):
            subject(row.instance_uuid).migrations.append(record_rows.migration(cell, row))
        # A migration of a deleted server alone holds nothing.
        servers = [each for each in found.values() if each.instances]
        self._read_holders(servers)
        self._read_ended([each for each in servers if any(row.is_worked_on for row in each.instances)])
        self._read_others([each for each in found.values() if not each.visible])
        self._read_actions([each for each in servers if self._is_worked_on(each)])
        self._read_flavors([each for each in servers if self._is_suspect(each)])
        self._read_evacuations([each for each in servers if len(self.fleet.roots(each.held)) > 1])
        return found

    def _read_api(self, where: Where, subject: Callable[[str], Subject]) -> None:
        m, s, b = tables.instance_mappings.c, tables.request_specs.c, tables.build_requests.c
        mapped = sa.select(
            m.instance_uuid, m.cell_id, m.queued_for_delete, m.created_at, m.updated_at, m.project_id, m.user_id
        )
        for row in self._api.execute(mapped.where(where(m.instance_uuid))):
            touched = seconds_of(row.created_at, row.updated_at)
            cell = self._names.get(row.cell_id)
            owner = Owner(row.project_id, row.user_id)
            subject(row.instance_uuid).mappings.append(CellMapping(cell, row.queued_for_delete, touched, owner))
        asked = sa.select(b.instance_uuid, b.created_at, b.updated_at).where(where(b.instance_uuid))
        for asking in self._api.execute(asked):
            subject(asking.instance_uuid).build_request = seconds_of(asking.created_at, asking.updated_at)
        specs = sa.select(s.instance_uuid, s.spec).where(where(s.instance_uuid))
        with self._api.execute(specs, execution_options={"yield_per": PIECE}) as specified:
            for each in specified:
                subject(each.instance_uuid).spec = record_rows.spec(each.spec)

    def _read_holders(self, servers: Iterable[Subject]) -> None:
        """Read what open migrations hold."""
        owners = {each.uuid: server for server in servers for each in server.migrations if each.uuid}
        for ids in batches(owners, PIECE):
            for id, held in placement_allocations.read(self._placement, _among(ids)).items():
                owners[id].held_by[id] = held

    def _read_ended(self, servers: Iterable[Subject]) -> None:
        """Read the migrations that ended and hold something: a revert goes on after its migration is `reverted`."""
        by_id = {each.id: each for each in servers}
        for ids in batches(by_id, PIECE):
            ended = MIGRATIONS.where(_m.instance_uuid.in_(ids), _m.deleted == 0, _m.status.in_(ENDED))
            rows = {each.uuid: each for each in (record_rows.migration(*found) for found in self._in_cells(ended))}
            for some in batches(rows, PIECE):
                for id, held in placement_allocations.read(self._placement, _among(some)).items():
                    owner = by_id[rows[id].server]
                    owner.held_by[id] = held
                    owner.ended.append(rows[id])

    def _read_others(self, others: Iterable[Subject]) -> None:
        """Read rows of deleted servers, and migrations, with the ids of those that are no servers."""
        by_id = {each.id: each for each in others}
        servers: dict[str, list[Subject]] = {}
        for ids in batches(by_id, PIECE):
            for cell, row in self._in_cells(INSTANCES.where(_i.uuid.in_(ids), _i.deleted != 0)):
                by_id[row.uuid.lower()].deleted.append(record_rows.instance(cell, row))
            for cell, row in self._in_cells(MIGRATIONS.where(_m.uuid.in_(ids))):
                migration = record_rows.migration(cell, row)
                by_id[migration.uuid].migration.append(migration)
                servers.setdefault(migration.server, []).append(by_id[migration.uuid])
        for ids in batches(servers, PIECE):
            for cell, row in self._in_cells(INSTANCES.where(_i.uuid.in_(ids), _i.deleted == 0)):
                found = record_rows.instance(cell, row)
                for each in servers[found.uuid]:
                    if each.of is None or each.of.is_hidden:
                        each.of = found

    def _is_worked_on(self, each: Subject) -> bool:
        return bool(each.migrations) or any(row.is_worked_on for row in each.instances)

    def _is_suspect(self, each: Subject) -> bool:
        server = each.server
        if server is None or server.host is None:
            return False
        return each.held is None or cpus_and_memory(each.held) != (server.vcpus, server.memory_mb)

    def _read_actions(self, servers: Sequence[Subject]) -> None:
        for each in servers:
            for row in each.instances:
                each.action = self._last_action(row) or each.action

    def volume_work(self, server: Instance) -> Action | None:
        return self._last_action(server, tables.instance_actions.c.action.in_(VOLUME_ACTIONS))

    def _last_action(self, server: Instance, *where: sa.ColumnElement[bool]) -> Action | None:
        a, e = tables.instance_actions.c, tables.instance_actions_events.c
        connection = self._cells[server.cell]
        last = sa.select(a.id, a.action, a.request_id, a.start_time, a.updated_at)
        last = last.where(a.instance_uuid == server.uuid, a.deleted == 0, *where).order_by(a.id.desc()).limit(1)
        action = connection.execute(last).first()
        if action is None:
            return None
        steps = sa.select(e.event, e.host, e.start_time, e.finish_time).where(e.action_id == action.id)
        events = connection.execute(steps.order_by(e.id)).all()
        opened = [event for event in events if event.finish_time is None]
        times = [time for event in events for time in (event.start_time, event.finish_time)]
        return Action(
            name=action.action or "",
            request_id=action.request_id or "",
            open_event=opened[-1].event if opened else None,
            open_host=opened[-1].host if opened else None,
            last_event=events[-1].event if events else None,
            touched=seconds_of(action.start_time, action.updated_at, *times),
        )

    def _read_flavors(self, servers: Sequence[Subject]) -> None:
        c = tables.instance_extra.c
        by_id = {each.id: each for each in servers}
        for ids in batches(by_id, PIECE):
            statement = sa.select(c.instance_uuid, c.flavor).where(c.instance_uuid.in_(ids), c.deleted == 0)
            for _, row in self._in_cells(statement):
                by_id[row.instance_uuid.lower()].resources_of_flavor = record_rows.extra_specs(row.flavor)

    def _read_evacuations(self, servers: Sequence[Subject]) -> None:
        by_id = {each.id: each for each in servers}
        statuses = ("accepted", "pre-migrating", "done")  # completed: the source has released its part
        for ids in batches(by_id, PIECE):
            statement = MIGRATIONS.where(
                _m.instance_uuid.in_(ids), _m.migration_type == "evacuation", _m.status.in_(statuses), _m.deleted == 0
            )
            for cell, row in self._in_cells(statement):
                by_id[row.instance_uuid.lower()].evacuations.append(record_rows.migration(cell, row))

    def bandwidth_holders(self) -> Sequence[str]:
        return placement_allocations.bandwidth_holders(self._placement)

    # Devices and volumes

    def devices(self) -> Sequence[tuple[Device, Subject | None]]:
        c = tables.pci_devices.c
        hosts = {(node.cell, node.id): node.host for node in self.fleet.nodes}
        columns = (c.compute_node_id, c.address, c.dev_type, c.status, c.instance_uuid, c.parent_addr, c.updated_at)
        statement = sa.select(*columns).where(c.deleted == 0, c.status.in_(("claimed", "allocated")))
        found = [
            Device(cell, row.compute_node_id, hosts.get((cell, row.compute_node_id)), row.address, row.dev_type,
                   row.status, row.instance_uuid, row.parent_addr, seconds_of(row.updated_at))
            for cell, row in self._in_cells(statement)
        ]  # fmt: skip
        servers: dict[str, Subject] = {}
        for ids in batches({each.server.lower(): each for each in found if each.server}, PIECE):
            servers.update({each.id: each for each in self.some(ids) if each.instances})
        return [(each, servers.get((each.server or "").lower())) for each in found]

    def volume_mappings(self) -> Iterator[VolumeUse]:
        alive = _USES.join(tables.instances, (_i.uuid == _b.instance_uuid) & (_i.deleted == 0))
        alive = alive.add_columns(_b.id).order_by(_b.id).limit(PER_RANGE)
        for cell, connection in self._cells.items():
            last = 0
            while rows := connection.execute(alive.where(_b.id > last)).all():
                yield from (_volume_use(cell, row) for row in rows)
                last = rows[-1].id

    def uses_of_volumes(self, volumes: Sequence[str]) -> Iterator[VolumeUse]:
        for ids in batches(volumes, PIECE):
            for cell, row in self._in_cells(_USES.where(_b.volume_id.in_(ids))):
                yield _volume_use(cell, row)

    def uses_of_servers(self, servers: Sequence[str]) -> Iterator[VolumeUse]:
        for ids in batches(servers, PIECE):
            for cell, row in self._in_cells(_USES.where(_b.instance_uuid.in_(ids))):
                yield _volume_use(cell, row)

    def servers_on(self, host: str) -> Iterator[Sequence[str]]:
        there = sa.select(_i.uuid).where(_i.host == host, _i.deleted == 0, sa.or_(_i.hidden.is_(None), ~_i.hidden))
        yield from batches([row.uuid.lower() for _, row in self._in_cells(there)], PIECE)

    def groups(self) -> Iterator[Group]:
        g, p, m = tables.instance_groups, tables.instance_group_policy.c, tables.instance_group_member.c
        joined = g.join(tables.instance_group_policy, p.group_id == g.c.id)
        hard = sa.select(g.c.id, g.c.uuid, g.c.name, p.policy, p.rules).select_from(joined)
        visible = INSTANCES.where(_i.deleted == 0, sa.or_(_i.hidden.is_(None), ~_i.hidden))
        for row in self._api.execute(hard.where(p.policy.in_(("affinity", "anti-affinity")))).all():
            ids = self._api.scalars(sa.select(m.instance_uuid).where(m.group_id == row.id)).all()
            members = [
                record_rows.instance(*found)
                for some in batches(ids, PIECE)
                for found in self._in_cells(visible.where(_i.uuid.in_(some)))
            ]
            if len(members) > 1:
                most = record_rows.max_per_host(row.rules)
                yield Group(uuid=row.uuid, name=row.name or "", policy=row.policy, max_per_host=most, members=members)

    def volume_uses(self) -> Iterator[tuple[VolumeUse, bool]]:
        gone = _USES.join(tables.instances, (_i.uuid == _b.instance_uuid) & (_i.deleted == 0), isouter=True)
        for cell, row in self._in_cells(gone.where(_i.id.is_(None))):
            yield _volume_use(cell, row), False
        twice = (
            sa.select(_b.attachment_id)
            .where(_b.deleted == 0, _b.attachment_id.is_not(None))
            .group_by(_b.attachment_id)
            .having(sa.func.count(sa.distinct(_b.instance_uuid)) > 1)
        )
        for cell, row in self._in_cells(_USES.where(_b.attachment_id.in_(twice))):
            yield _volume_use(cell, row), True


def _volume_use(cell: str, row: Any) -> VolumeUse:
    return VolumeUse(
        cell,
        row.instance_uuid or "",
        row.volume_id,
        row.attachment_id,
        seconds_of(row.created_at, row.updated_at),
        is_root=row.boot_index == 0,
        was_connected=bool(row.was_connected),
    )


def _range(prefix: str) -> Where:
    """Select uuids that begin with hexadecimal digits."""
    if not prefix:
        return lambda column: column.is_not(None)
    last = prefix[:-1] + "g" if prefix[-1] == "f" else prefix[:-1] + HEX[HEX.index(prefix[-1]) + 1]
    return lambda column: (column >= prefix) & (column < last)


def _among(ids: Sequence[str]) -> Where:
    return lambda column: column.in_(ids)
