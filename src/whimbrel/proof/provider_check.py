"""Violations of providers: recorded usage, and the zones that Placement has for hosts.

Usage needs no cells. Hosts of an unreachable cell are skipped.
"""

from collections.abc import AsyncIterator, Iterable, Mapping

from whimbrel.domain.ids import HostName, ProviderId
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.placement import HostZone
from whimbrel.ports.stores.catalog import zones_by_host
from whimbrel.proof.evidence import CloudSnapshot
from whimbrel.proof.invariants.providers import counted
from whimbrel.proof.invariants.zones import zone_violation
from whimbrel.proof.violation import Violation


async def of_providers(cloud: Cloud, snapshot: CloudSnapshot) -> AsyncIterator[Violation]:
    for miscount in await cloud.placement.miscounts():
        yield counted(miscount)
    hosts = {host.id: name for name, host in snapshot.hosts.items()}
    for told, zone in await differing_zones(cloud, await cloud.placement.zoned_hosts(), hosts):
        yield zone_violation(told, hosts[told.root], zone or snapshot.default_zone, snapshot)


async def differing_zones(
    cloud: Cloud, told: Iterable[HostZone], hosts: Mapping[ProviderId, HostName]
) -> list[tuple[HostZone, str]]:
    """Return each host zone of Placement that differs from the current one, with the current one. told: read before."""
    default, zones = cloud.rules.default_availability_zone, zones_by_host(await cloud.aggregates.all())
    there = ((was, zones.get(hosts[was.root], "")) for was in told if was.root in hosts)
    return [(was, zone) for was, zone in there if (zone or default) != (was.zone or default)]
