"""Follow changes of ports of which no news arrived: deleted ports leave their guests, changed addresses are recorded.

The network service sends each event once. One that was sent while no API process answered, or was taken by a process
that died, is lost. So a tenth of the hosts is compared with the network service in each round.
Invariant: only a nic whose port the network service does not know is detached, and never many at once.
Source: Nova's periodic _heal_instance_info_cache.
"""

from zlib import crc32

import structlog

from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.host import Host
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.proof.paged_reads import each
from whimbrel.reconcilers import reachable
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.cleanup.late_effects import detach_lost
from whimbrel.servers.devices import interfaces

log = structlog.get_logger(__name__)

ROUND_S = 60.0
ROUNDS = 10
"""After so many rounds every host has been looked at."""

MOST_LOST = 10
"""With more servers of a round, the network service is believed to have lost ports: an older copy was put back."""


async def follow_changed_ports(cloud: Cloud, engine: Engine) -> int:
    """Compare the servers of this round's hosts with their ports; return the number of those that are changed."""
    hosts = await reachable.hosts(cloud)
    turn = int(cloud.clock.now() / ROUND_S) % ROUNDS
    stale, lost = list[Server](), list[Server]()

    async def look(host: Host) -> None:
        found = await _differing(cloud, host)
        stale.extend(found[0])
        lost.extend(found[1])

    await each([host for host in hosts if crc32(host.name.encode()) % ROUNDS == turn], look)
    if len(lost) > MOST_LOST:
        log.warning("many ports of servers are gone, and are not detached; see whimbrel prove", servers=len(lost))
        lost = []
    return sum([await _refresh(cloud, server) for server in stale]) + sum(
        [await _detach(cloud, engine, server) for server in lost]
    )


async def _differing(cloud: Cloud, host: Host) -> tuple[list[Server], list[Server]]:
    """Return the servers on a host with other addresses than recorded, and those with nics that have no port."""
    try:
        servers = [server for server in await lookup.on_host(cloud, host.cell, host.name) if _is_settled(server)]
        ports = await cloud.network.ports_of([server.id for server in servers], with_requests=False) if servers else []
        floating = await interfaces.floating_addresses(cloud, servers)
    except (Unavailable, Refused):
        return [], []
    now = {port.id: port.addresses for port in ports}
    stale = [
        one
        for one in servers
        if any(
            now.get(nic.port_id, nic.addresses) != nic.addresses or floating.get(nic.port_id, ()) != nic.floating
            for nic in one.nics
        )
    ]
    return stale, [one for one in servers if not now.keys() >= {nic.port_id for nic in one.nics}]


def _is_settled(server: Server) -> bool:
    return bool(server.nics) and server.task_state is None and server.vm_state in interfaces.STATES


async def _refresh(cloud: Cloud, server: Server) -> int:
    try:
        await interfaces.refresh(cloud, server)
    except (Conflict, NotFound, Refused, Unavailable):
        return 0  # it changes, or its cell does not answer
    return 1


async def _detach(cloud: Cloud, engine: Engine, server: Server) -> int:
    try:
        return int(await detach_lost(cloud, engine, cloud.on_behalf_of(server), server))
    except (Conflict, NotFound, Refused, Unavailable):
        return 0  # it is busy, or a service does not answer
