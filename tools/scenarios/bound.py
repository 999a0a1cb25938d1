"""Servers that are bound to a server group and to an availability zone."""

from msgspec.structs import replace

from whimbrel.domain.ids import GroupId
from whimbrel.domain.server import Server
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.sim.cloud.cloud import PROJECT, USER, World

GROUP = GroupId("88888888-8888-4888-8888-888888888888")


async def bound(world: World, server: Server) -> Server:
    """Return a new server's record in a group with anti-affinity, which is made here, pinned to the default zone."""
    now = world.cloud.clock.now()
    group = ServerGroup(id=GROUP, name="g", project_id=PROJECT, user_id=USER, policy="anti-affinity", created_at=now)
    await world.cloud.server_groups.create(group, -1)
    zone = world.cloud.rules.default_availability_zone
    return replace(server, spec=replace(server.spec, zone_pin=zone, hints={"group": GROUP}))
