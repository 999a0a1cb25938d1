"""Changes of hosts' availability zones: claims that depend on the old zone are refused before the zone changes.

Invariant: the zone changes in Placement first, which refuses if there are claims; so of a claim and a change of its
host's zone, the later one is refused, whatever either had read. If the change fails, Placement is corrected, and a
concurrent change is refused.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress

from whimbrel.domain.errors import WorldError
from whimbrel.domain.host import Aggregate, Host
from whimbrel.domain.ids import HostName, ProviderId
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.catalog import Zoning, zones_by_host
from whimbrel.proof.provider_check import differing_zones


@asynccontextmanager
async def changing(
    cloud: Cloud, hosts: Sequence[Host], before: Sequence[Aggregate], after: Sequence[Aggregate]
) -> AsyncIterator[Zoning]:
    """Guard a change of aggregates that may change the zone of these hosts.
    Raises: Conflict: there are claims on a host with a changing zone; Unavailable.
    """
    repairs = await cloud.aggregates.zone_mends()
    were, are = _zones(hosts, before), _zones(hosts, after)
    default = cloud.rules.default_availability_zone
    going = {host.id: are[host.name] for host in hosts if (are[host.name] or default) != (were[host.name] or default)}
    try:
        if going:
            await cloud.placement.zone_hosts(going)
        yield Zoning(zones={name: zone for name, zone in are.items() if zone != were[name]}, repairs=repairs)
    except WorldError:
        with suppress(WorldError):  # the periodic repair will do it
            await repair(cloud)
        raise


async def repair(cloud: Cloud, only: ProviderId | None = None) -> int:
    """Correct the zones in Placement; return the number of hosts corrected. only: this host's provider."""
    told = [one for one in await cloud.placement.zoned_hosts() if only in (None, one.root)]
    if not told:
        return 0
    names = {host.id: host.name for host in (await cloud.fleets.now()).hosts}
    if not await differing_zones(cloud, told, names):
        return 0
    await cloud.aggregates.repair_zones()
    wrong = await differing_zones(cloud, told, names)
    for was, zone in wrong:
        await cloud.placement.correct_zone(was, zone)
    return len(wrong)


def _zones(hosts: Iterable[Host], aggregates: Sequence[Aggregate]) -> dict[HostName, str]:
    """Return the zones that aggregates assign to hosts; "": none."""
    zones = zones_by_host(aggregates)
    return {host.name: zones.get(host.name, "") for host in hosts}
