"""Availability zones, by the hosts that are in them. One is available while a host of it is enabled.

Source: reference of Nova 34, section 2.4.
"""

from typing import Any

from whimbrel.api import places, times
from whimbrel.api.call import Call
from whimbrel.domain.host import Host
from whimbrel.ports.catalog import zone_of

BINARY = "nova-compute"


async def index(call: Call) -> Any:
    by_zone = await _hosts_by_zone(call)
    return {
        "availabilityZoneInfo": [
            {"zoneName": zone, "zoneState": {"available": _is_available(hosts)}, "hosts": None}
            for zone, hosts in sorted(by_zone.items())
        ]
    }


async def detail(call: Call) -> Any:
    now = call.cloud.clock.now()
    by_zone = await _hosts_by_zone(call)
    return {
        "availabilityZoneInfo": [
            {
                "zoneName": zone,
                "zoneState": {"available": _is_available(hosts)},
                "hosts": {host.name: {BINARY: _service(host, now)} for host in hosts if host.enabled} or None,
            }
            for zone, hosts in sorted(by_zone.items())
        ]
    }


async def _hosts_by_zone(call: Call) -> dict[str, list[Host]]:
    aggregates, default = await call.cloud.aggregates.all(), call.cloud.rules.default_availability_zone
    by_zone: dict[str, list[Host]] = {}
    for host in (await places.hosts(call)).values():
        by_zone.setdefault(zone_of(host.name, aggregates) or default, []).append(host)
    return by_zone


def _is_available(hosts: list[Host]) -> bool:
    return any(host.enabled for host in hosts)


def _service(host: Host, now: float) -> dict[str, Any]:
    seen_at = times.with_fraction(min(host.seen_at, now))
    return {"active": host.enabled, "available": host.is_up(now), "updated_at": seen_at}
