"""Worlds with server groups, for stories."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from whimbrel.domain.ids import GroupId, HostName, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.ports.stores.server_groups import GroupPolicy, ServerGroup
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import PROJECT, USER, World

GROUP = GroupId("88888888-8888-4888-8888-888888888888")


async def grouped_world(policy: GroupPolicy, homes: Sequence[str], hosts: Sequence[str]) -> tuple[World, list[Server]]:
    """Make a world with one group, a server of which lives on each of these homes."""
    world = await World.build(hosts)
    group = ServerGroup(
        id=GROUP, name="g", project_id=PROJECT, user_id=USER, policy=policy, created_at=world.cloud.clock.now()
    )
    await world.cloud.server_groups.create(group, -1)
    servers = []
    for number, home in enumerate(homes):
        new = replace(world.new_server(f"s{number}"), spec=RequestSpec(hints={"group": GROUP}))
        engine = world.engine("setup")
        await create.accept(world.cloud, engine, world.requester(), [new], HostName(home))
        await world.settle(engine)
        servers.append(await lookup.find(world.cloud, new.id))
    assert [server.host for server in servers] == list(homes)
    return world, servers


async def homes(world: World, servers: Sequence[Server]) -> list[str | None]:
    return [(await lookup.find(world.cloud, server.id)).host for server in servers]


async def hosts_held(world: World, servers: Sequence[Server]) -> Mapping[ServerId, set[str]]:
    """Return the hosts on which each server of the group holds something."""
    names = {host.id: host.name for cell in world.cloud.cells.values() for host in await cell.hosts.all()}
    held: dict[ServerId, set[str]] = {server.id: set() for server in servers}
    for server, root in (await world.cloud.placement.group_places(GROUP)).held:
        held[server].add(names[root])
    return held


async def run_of(world: World, server: Server) -> Run:
    run = await world.cloud.journal.open_run(server.id)
    assert run
    return run
