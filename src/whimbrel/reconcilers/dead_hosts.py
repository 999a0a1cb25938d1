"""Evacuate dead hosts automatically, if the rule evacuate_dead_hosts is set.

Invariant: if more than a share of a zone's hosts is down, nothing of the zone is evacuated: it is probably the control
plane that is cut off. Evidence is needed as for every evacuation.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import structlog

from whimbrel.domain.errors import WorldError
from whimbrel.domain.host import SERVICE_DOWN_S, Host
from whimbrel.domain.ids import HostName, ProjectId, UserId
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.catalog import zones_by_host
from whimbrel.reconcilers import reachable
from whimbrel.saga.engine import Engine
from whimbrel.servers.host_evacuation import Pace, evacuate_host

log = structlog.get_logger(__name__)

USER = UserId("whimbrel")
TRIED_AGAIN_S = 3600.0
"""How long a server is left whose evacuation was undone."""


async def evacuate_dead_hosts(cloud: Cloud, engine: Engine) -> int:
    """Begin evacuations of dead hosts; return how many. A cell that does not answer is skipped with its hosts."""
    rules, now = cloud.rules, cloud.clock.now()
    if not rules.evacuate_dead_hosts:
        return 0
    hosts = await reachable.hosts(cloud)
    zones = zones_by_host(await cloud.aggregates.all())
    guarded = guarded_zones(hosts, zones, rules.default_availability_zone, now, rules.most_hosts_lost)
    dead = [host for host in hosts if not host.is_up(now) and now - host.seen_at > rules.evacuate_after_s]
    begun = 0
    for host in dead:
        zone = zones.get(host.name, rules.default_availability_zone)
        if zone in guarded:
            log.warning("too many hosts of a zone are down to evacuate without being asked", host=host.name, zone=zone)
            continue
        begun += await _evacuate(cloud, engine, host, now)
    return begun


def guarded_zones(
    hosts: Iterable[Host], zones: Mapping[HostName, str], default: str, now: float, most: float
) -> frozenset[str]:
    """Return the zones of which more than the share `most` of hosts is down. A host that an administrator forced down
    and that still answers does not count as down: it was not lost.
    """
    lost: dict[str, list[bool]] = defaultdict(list)
    for host in hosts:
        is_lost = not host.is_up(now) and not _answers(host, now)
        lost[zones.get(host.name, default)].append(is_lost)
    return frozenset(zone for zone, found in lost.items() if sum(found) > most * len(found))


def _answers(host: Host, now: float) -> bool:
    return host.forced_down and now - host.seen_at < SERVICE_DOWN_S


async def _evacuate(cloud: Cloud, engine: Engine, host: Host, now: float) -> int:
    requester = Requester(user_id=USER, project_id=ProjectId(""), request_id=f"req-{cloud.ids.uuid()}", is_admin=True)
    pace = Pace(at_once=cloud.rules.evacuations_at_once, per_minute=cloud.rules.evacuations_per_minute)
    try:
        done = await evacuate_host(cloud, engine, requester, host, pace, now - TRIED_AGAIN_S, leaves_cell=False)
    except WorldError as trouble:
        log.warning("a dead host is not evacuated now", host=host.name, reason=trouble.reason)
        return 0
    if done.begun:
        log.warning("a dead host is evacuated", host=host.name, begun=done.begun)
    return done.begun
