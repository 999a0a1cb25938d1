"""Puts hosts into the zones of their descriptions: an aggregate for each zone, and Placement.

Invariant: Placement is updated first, and refuses if there are claims on a host; a host that is in a zone stays there.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound
from whimbrel.domain.host import Aggregate, Host, Zone
from whimbrel.domain.ids import HostName
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.catalog import zones_by_host
from whimbrel.servers.zones import zone_changes

log = structlog.get_logger(__name__)


async def put_into_zones(cloud: Cloud, zones: Mapping[HostName, str], rows: Mapping[HostName, Host]) -> None:
    """Ensure that every zone has an aggregate with its hosts; later changes by operators are kept.

    A host with claims keeps its zone, too. zones: by host, names. rows: without hosts whose cells are down.
    """
    default = await _default_zone(cloud)
    known = {aggregate.name: aggregate for aggregate in await cloud.aggregates.all()}
    placed = zones_by_host(known.values())
    wanted: dict[str, list[HostName]] = {}  # zone name -> hosts that are in no zone yet
    for host, zone in zones.items():
        meant = known[zone].zone if zone in known else default.id
        if (placed_in := placed.get(host)) not in (None, meant):
            log.warning("a host stays in its zone, which is not that of the settings", host=host, zone=placed_in)
        if zone not in (default.id, default.name) and host not in placed:
            wanted.setdefault(zone, []).append(host)
    for name, hosts in wanted.items():
        await _put_all_into(cloud, known.get(name) or await _aggregate(cloud, name), hosts, rows)
    aggregates = await cloud.aggregates.all()
    members: dict[HostName, list[str]] = {name: [] for name in rows}
    for aggregate in aggregates:
        for name in aggregate.hosts:
            members.setdefault(name, []).append(aggregate.uuid)
    await cloud.placement.set_all_aggregates({row.id: members[name] for name, row in rows.items()})


async def _aggregate(cloud: Cloud, zone: str) -> Aggregate:
    """Return the aggregate of a zone, created if it is new."""
    now = cloud.clock.now()
    ensured = await cloud.zones.ensure(Zone(id=cloud.ids.uuid(), name=zone, created_at=now))
    try:
        return await cloud.aggregates.create(zone, cloud.ids.uuid(), {"availability_zone": ensured.id}, now)
    except Conflict:  # another process has created it
        return next(each for each in await cloud.aggregates.all() if each.name == zone)


async def _put_all_into(
    cloud: Cloud, aggregate: Aggregate, names: Sequence[HostName], rows: Mapping[HostName, Host]
) -> None:
    """Add hosts without a zone to an aggregate; those that cannot be added are skipped, which is logged."""
    try:
        await _put_into(cloud, aggregate, names, rows)
    except (Conflict, NotFound) as trouble:
        if len(names) == 1:
            log.warning("a host is not in its zone", host=names[0], zone=aggregate.name, reason=trouble.reason)
            return
        for name in names:
            await _put_all_into(cloud, aggregate, [name], rows)


async def _put_into(
    cloud: Cloud, aggregate: Aggregate, names: Sequence[HostName], rows: Mapping[HostName, Host]
) -> None:
    """Add hosts without a zone to an aggregate; Placement is updated first.

    rows: without those whose cell is down; the zone checks update Placement for them later.
    Raises: Conflict: there are claims on a host, or it was added to another zone concurrently.
    """
    now, known = cloud.clock.now(), [rows[name] for name in names if name in rows]
    if away := [name for name in names if name not in rows]:
        await cloud.aggregates.add_hosts(aggregate.id, away, now)
    if known:
        here = [host.name for host in known]
        async with zone_changes.changing(cloud, known, [], [replace(aggregate, hosts=here)]) as zoning:
            await cloud.aggregates.add_hosts(aggregate.id, here, now, zoning)


async def _default_zone(cloud: Cloud) -> Zone:
    """Return the zone of hosts without an aggregate's zone. Raises: Invalid: its name is another zone's."""
    rule = cloud.rules.default_availability_zone
    with suppress(NotFound):
        return await cloud.zones.get(rule)
    found = await cloud.zones.ensure(Zone(id=rule, name=rule, created_at=cloud.clock.now()))
    if found.id != rule:
        raise Invalid(
            f"[rules]: 'default_availability_zone' is '{rule}', the name of a zone that is there already; to make that"
            f" one the default zone give its id, '{found.id}'"
        )
    return found
