"""Follow guests that are off although their records say that they run: power loss of a host, or manual action.

Invariant: the record follows the guest, which is not touched: its owner starts it when convenient.
Source: Nova's periodic _sync_power_states, without resume_guests_state_on_host_boot.
"""

from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable, WrongState
from whimbrel.domain.guest import Guest
from whimbrel.domain.host import Host
from whimbrel.ports.cloud import Cloud
from whimbrel.proof.paged_reads import each
from whimbrel.reconcilers import reachable
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import power


async def follow_lost_power(cloud: Cloud, engine: Engine) -> int:
    """Check the guests of every host that is up; return the number of records to update."""
    now, found = cloud.clock.now(), list[int]()

    async def look(host: Host) -> None:
        found.append(await _look_at(cloud, engine, host))

    await each([host for host in await reachable.hosts(cloud) if host.is_up(now)], look)
    return sum(found)


async def _look_at(cloud: Cloud, engine: Engine, host: Host) -> int:
    try:
        guests = await cloud.agent(host.cell, host.name).guests()
    except (Unavailable, Refused):
        return 0
    return sum([await _follow(cloud, engine, host, guest) for guest in guests if guest.power == "stopped"])


async def _follow(cloud: Cloud, engine: Engine, host: Host, guest: Guest) -> int:
    try:
        server = await lookup.find(cloud, guest.key.server)
        if (server.host, server.slot) != (host.name, guest.key.slot) or server.task_state is not None:
            return 0
        await power.follow(cloud, engine, cloud.on_behalf_of(server), server)
    except (Conflict, NotFound, Unavailable, WrongState):
        return 0  # it is meant to be off, or busy, or its cell is unreachable
    return 1
