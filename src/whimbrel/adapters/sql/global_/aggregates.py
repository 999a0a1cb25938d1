"""Host aggregates in the global database.

Invariant: a host is in at most one zone. A transaction that changes memberships or zones first locks all aggregates, in
one order, and checks under that lock; there are few of them and they change rarely.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.change_counter import Counting
from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import inserts
from whimbrel.adapters.sql.tables.global_ import aggregate_hosts, aggregates, zone_mends, zones
from whimbrel.domain.errors import Conflict, NotFound, Refused
from whimbrel.domain.host import Aggregate
from whimbrel.domain.ids import HostName
from whimbrel.ports.stores.catalog import Zoning, zones_by_host

Row = sa.Row[tuple[object, ...]]

_ID = aggregates.c.id == sa.bindparam("number")
_MEMBER = (
    aggregate_hosts.c.aggregate_id == sa.bindparam("number"),
    aggregate_hosts.c.host == sa.bindparam("member"),
)
_ALL = fixed(sa.select(aggregates).order_by(aggregates.c.id))
_LOCK_ALL = _ALL.with_for_update()
_GET = sa.select(aggregates).where(_ID)
_HOSTS = fixed(sa.select(aggregate_hosts).order_by(aggregate_hosts.c.host))
_HOSTS_OF_ONE = _HOSTS.where(_MEMBER[0])
_ZONES = fixed(sa.select(zones))
_INSERT = sa.insert(aggregates).returning(aggregates.c.id)
_CHANGE = (
    sa.update(aggregates)
    .where(_ID)
    .values(name=sa.bindparam("called"), metadata=sa.bindparam("meta"), updated_at=sa.bindparam("now"))
)
_DELETE = sa.delete(aggregates).where(_ID)
_ADD_HOST = sa.insert(aggregate_hosts)
_REMOVE_HOST = sa.delete(aggregate_hosts).where(*_MEMBER)


_ZONE_REPAIRS = fixed(sa.select(zone_mends.c.number))
_HOLD_ZONE_REPAIRS = _ZONE_REPAIRS.with_for_update(read=True)
_ZONE_REPAIR = inserts(
    zone_mends,
    lambda insert: insert.on_conflict_do_update(index_elements=["id"], set_={"number": zone_mends.c.number + 1}),
)


class SqlAggregates(Counting):
    """Implements ports.stores.catalog.Aggregates."""

    async def all(self) -> list[Aggregate]:
        async with self._db.read() as tx:
            found, hosts = await tx.ask((_ALL, None), (_HOSTS, None))
        return _joined(found, hosts)

    async def with_zone_names(self) -> tuple[list[Aggregate], dict[str, str]]:
        async with self._db.urgent.read() as tx:  # all decisions wait for it
            found, hosts, named = await tx.ask((_ALL, None), (_HOSTS, None), (_ZONES, None))
        return _joined(found, hosts), {zone.id: zone.name for zone in named}

    async def get(self, number: int) -> Aggregate:
        async with self._db.read() as tx:
            rows = await tx.rows(_GET, {"number": number})
            found = _joined(rows, await tx.rows(_HOSTS_OF_ONE, {"number": number}))
        if not found:
            raise _missing(number)
        return found[0]

    async def create(self, name: str, uuid: str, metadata: Mapping[str, str], now: float) -> Aggregate:
        async with self._changing() as tx:
            _name_must_be_free(await _locked(tx), name)
            values = {"uuid": uuid, "name": name, "metadata": dict(metadata), "created_at": now}
            number = await tx.value(_INSERT, values)
        return Aggregate(id=number, uuid=uuid, name=name, metadata=dict(metadata), created_at=now)

    async def rename(
        self,
        number: int,
        name: str,
        now: float,
        metadata: Mapping[str, str | None] | None = None,
        zoning: Zoning | None = None,
    ) -> Aggregate:
        return await self._change(number, name, metadata or {}, now, zoning)

    async def set_metadata(
        self, number: int, metadata: Mapping[str, str | None], now: float, zoning: Zoning | None = None
    ) -> Aggregate:
        return await self._change(number, None, metadata, now, zoning)

    async def _change(
        self, number: int, name: str | None, metadata: Mapping[str, str | None], now: float, zoning: Zoning | None
    ) -> Aggregate:
        async with self._changing() as tx:
            known = await _locked(tx)
            aggregate = _pick(known, number)
            were, was = _zones(known, aggregate.hosts), aggregate.zone
            if name is not None and name != aggregate.name:
                _name_must_be_free(known, name)
                aggregate.name = name
            merged = {**aggregate.metadata, **metadata}
            aggregate.metadata = {key: value for key, value in merged.items() if value is not None}
            if others := await _other_zones(tx, known, aggregate, aggregate.hosts):
                raise Refused(
                    f"Cannot update aggregate {number}. Reason: One or more hosts already in availability"
                    f" zone(s) {others}."
                )
            await _check_zoning(tx, zoning, were, _zones(known, aggregate.hosts))
            if zoning and aggregate.zone != was and aggregate.zone not in {row.id for row in await tx.rows(_ZONES)}:
                raise Conflict("The availability zone was deleted by another request. Try again.")
            return await _write(tx, aggregate, now)

    async def delete(self, number: int) -> None:
        async with self._changing() as tx:
            if _pick(await _locked(tx), number).hosts:
                raise Refused(f"Cannot delete aggregate {number}. Reason: Host aggregate is not empty.")
            await tx.run(_DELETE, {"number": number})

    async def add_host(self, number: int, host: HostName, now: float, zoning: Zoning | None = None) -> Aggregate:
        return await self.add_hosts(number, [host], now, zoning)

    async def add_hosts(
        self, number: int, hosts: Sequence[HostName], now: float, zoning: Zoning | None = None
    ) -> Aggregate:
        async with self._changing() as tx:
            known = await _locked(tx)
            aggregate = _pick(known, number)
            for host in set(hosts).intersection(aggregate.hosts):
                raise Conflict(f"Aggregate {number} already has host {host}.")
            if others := await _other_zones(tx, known, aggregate, hosts):
                raise Conflict(
                    f"Cannot add host to aggregate {number}. Reason: One or more hosts already in availability"
                    f" zone(s) {others}."
                )
            were = _zones(known, hosts)
            await tx.run(_ADD_HOST, [{"aggregate_id": number, "host": host} for host in hosts])
            aggregate.hosts = sorted([*aggregate.hosts, *hosts])
            await _check_zoning(tx, zoning, were, _zones(known, hosts))
            return await _write(tx, aggregate, now)

    async def remove_host(self, number: int, host: HostName, now: float, zoning: Zoning | None = None) -> Aggregate:
        async with self._changing() as tx:
            known = await _locked(tx)
            aggregate = _pick(known, number)
            if host not in aggregate.hosts:
                raise NotFound(f"Aggregate {number} has no host {host}.")
            were = _zones(known, [host])
            await tx.run(_REMOVE_HOST, {"number": number, "member": host})
            aggregate.hosts = [name for name in aggregate.hosts if name != host]
            await _check_zoning(tx, zoning, were, _zones(known, [host]))
            return await _write(tx, aggregate, now)

    async def zone_mends(self) -> int:
        return await self._db.value(_ZONE_REPAIRS) or 0

    async def repair_zones(self) -> None:
        async with self._db.write() as tx:
            await tx.rows(_LOCK_ALL)  # a change in progress either commits before this, or sees it
            await tx.run(_ZONE_REPAIR[tx.dialect], {"id": 1, "number": 1})


async def _locked(tx: Tx) -> list[Aggregate]:
    return _joined(await tx.rows(_LOCK_ALL), await tx.rows(_HOSTS))


async def _write(tx: Tx, aggregate: Aggregate, now: float) -> Aggregate:
    aggregate.updated_at = now
    changed = {"number": aggregate.id, "called": aggregate.name, "meta": aggregate.metadata, "now": now}
    await tx.run(_CHANGE, changed)
    return aggregate


def _zones(known: Sequence[Aggregate], hosts: Sequence[HostName]) -> dict[HostName, str]:
    zones = zones_by_host(known)
    return {host: zones.get(host, "") for host in hosts}


async def _check_zoning(
    tx: Tx, zoning: Zoning | None, were: Mapping[HostName, str], are: Mapping[HostName, str]
) -> None:
    """Raises: Conflict: placement has recorded other zones, or was corrected meanwhile."""
    if zoning is None:
        return
    changed = {host: zone for host, zone in are.items() if zone != were[host]}
    if changed != zoning.zones or (await tx.value(_HOLD_ZONE_REPAIRS) or 0) != zoning.repairs:
        raise Conflict("Zones of these hosts were changed by another request. Read them again, then try again.")


def _joined(rows: Sequence[Row], members: Sequence[Row]) -> list[Aggregate]:
    found = {row.id: Aggregate(hosts=[], **row._mapping) for row in rows}
    for member in members:
        found[member.aggregate_id].hosts.append(member.host)
    for aggregate in found.values():
        aggregate.hosts.sort()
    return list(found.values())


def _pick(known: Sequence[Aggregate], number: int) -> Aggregate:
    for aggregate in known:
        if aggregate.id == number:
            return aggregate
    raise _missing(number)


def _missing(number: int) -> NotFound:
    return NotFound(f"Aggregate {number} could not be found.")


def _name_must_be_free(known: Sequence[Aggregate], name: str) -> None:
    if any(aggregate.name == name for aggregate in known):
        raise Conflict(f"Aggregate {name} already exists.")


async def _other_zones(
    tx: Tx, known: Sequence[Aggregate], aggregate: Aggregate, hosts: Sequence[HostName]
) -> list[str]:
    """Return the names of the zones that other aggregates give these hosts, except this aggregate's zone."""
    if not aggregate.zone:
        return []
    others = {
        other.zone
        for other in known
        if other.id != aggregate.id and other.zone and other.zone != aggregate.zone
        if not set(other.hosts).isdisjoint(hosts)
    }
    names = {row.id: row.name for row in await tx.rows(_ZONES)} if others else {}
    return sorted(names.get(zone, zone) for zone in others)
