"""Availability zones: Nova's representation, by their hosts, and Whimbrel's, with ids.

A zone is available while one of its hosts is enabled. Conductors are in the zone `internal`, which the details show
and the list does not. /v2.1/whimbrel/zones is Whimbrel's own part of the API, for
operators: it lists zones without hosts too, renames zones, which changes no server and no pin, and deletes unused ones.

Source: reference of Nova 34, section 2.4.
"""

from typing import Any

from whimbrel.api.hosts import internal_services
from whimbrel.api.http import times
from whimbrel.api.http.call import Call
from whimbrel.api.views import locations
from whimbrel.api.views import zones as views
from whimbrel.api.views.zones import ZoneAnswer, Zones
from whimbrel.domain.errors import Conflict
from whimbrel.domain.host import Host, Zone
from whimbrel.servers.zones.zone_users import holders

BINARY = "nova-compute"


async def index(call: Call) -> Any:
    by_zone = await _hosts_by_name_of_zone(call)
    return {
        "availabilityZoneInfo": [
            {"zoneName": zone, "zoneState": {"available": _is_available(hosts)}, "hosts": None}
            for zone, hosts in sorted(by_zone.items())
        ]
    }


async def detail(call: Call) -> Any:
    now = call.cloud.clock.now()
    zones: dict[str, dict[str, Any]] = {
        zone: {host.name: {BINARY: _service(host, now)} for host in hosts if host.enabled}
        for zone, hosts in (await _hosts_by_name_of_zone(call)).items()
    }
    if internal := internal_services.in_zone(await internal_services.of_cloud(call), now):
        zones[internal_services.ZONE] = zones.get(internal_services.ZONE, {}) | internal
    return {
        "availabilityZoneInfo": [
            {"zoneName": zone, "zoneState": {"available": bool(services)}, "hosts": services or None}
            for zone, services in sorted(zones.items())
        ]
    }


async def own_index(call: Call) -> Zones:
    hosts = await _hosts_by_zone(call)
    return Zones([_shown(call, zone, hosts) for zone in await call.cloud.zones.all()])


async def rename(call: Call) -> ZoneAnswer:
    zone = await call.cloud.zones.rename(call.params["zone_id"], call.body["zone"]["name"])
    return ZoneAnswer(_shown(call, zone, await _hosts_by_zone(call)))


async def delete(call: Call) -> Any:
    """Delete an unused zone. Raises: NotFound; Conflict: it is in use; the message names the users."""
    zone = await call.cloud.zones.get(call.params["zone_id"])
    if zone.id == call.cloud.rules.default_availability_zone:
        raise Conflict(
            f"{zone.name} is the default availability zone: hosts that no aggregate puts into one are in it."
        )
    await _check_unused(call, zone)
    await call.cloud.zones.delete(zone.id)
    try:
        await _check_unused(call, zone)
    except Conflict:
        await call.cloud.zones.ensure(zone)  # a concurrent request began to use it
        raise


async def _check_unused(call: Call, zone: Zone) -> None:
    if held := await holders(call.cloud, zone.id):
        raise Conflict(f"Availability zone {zone.name} cannot be deleted: {'; '.join(held)}.")


def _shown(call: Call, zone: Zone, hosts: dict[str, list[Host]]) -> views.Zone:
    return views.Zone(
        id=zone.id,
        name=zone.name,
        is_default=zone.id == call.cloud.rules.default_availability_zone,
        hosts=sorted(host.name for host in hosts.get(zone.id, [])),
        created_at=zone.created_at,
    )


async def _hosts_by_name_of_zone(call: Call) -> dict[str, list[Host]]:
    names = await locations.zone_names(call)
    return {locations.zone_name(names, zone): hosts for zone, hosts in (await _hosts_by_zone(call)).items()}


async def _hosts_by_zone(call: Call) -> dict[str, list[Host]]:
    aggregates = await call.cloud.aggregates.all()
    by_zone: dict[str, list[Host]] = {}
    for host in (await locations.known_hosts(call)).by_name.values():
        by_zone.setdefault(locations.zone_among(call, host.name, aggregates), []).append(host)
    return by_zone


def _is_available(hosts: list[Host]) -> bool:
    return any(host.enabled for host in hosts)


def _service(host: Host, now: float) -> dict[str, Any]:
    seen_at = times.with_fraction(min(host.seen_at, now))
    return {"active": host.enabled, "available": host.is_up(now), "updated_at": seen_at}
