"""Servers with ports that request bandwidth are not moved by agents of a release that cannot: as Nova's services.

Source: Nova spec "support move ops with QoS ports", upgrade impact. No such release of Whimbrel exists: it is made up.
"""

import pytest

from tests.booting import boot_server
from whimbrel.domain.errors import Conflict
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.moves.needs.agent_releases import FIRST_WITH_DRIVES, FIRST_WITH_HARDWARE, FIRST_WITH_REQUESTS
from whimbrel.ports.stores.hosts import AgentInfo
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import CELL, LARGE, World
from whimbrel.sim.world.equipment import with_devices

H1, H2, H3 = HostName("h1"), HostName("h2"), HostName("h3")
OLD, NEW = "0.0.9", FIRST_WITH_REQUESTS
BEFORE_DRIVES = "0.1.9"


async def world_with(*old: HostName, release: str = OLD) -> World:
    world = await World.build((H1, H2, H3), equipped=True)
    for host in old:
        await start_agent(world, host, release)
    return world


async def start_agent(world: World, name: HostName, release: str) -> None:
    """Begin a session of the host's agent, as one of this release does when it starts."""
    hosts = world.cloud.cell(CELL).hosts
    host = await hosts.get(name)
    described = HostDescription(
        name=name, zone="z", driver=host.driver, vcpus=host.vcpus, memory_mib=host.memory_mib, disk_gib=host.disk_gib,
        net=HostNet(host=name),
    )  # fmt: skip
    await hosts.begin_session(host, AgentInfo(release=release), described)
    await hosts.seen([name], world.cloud.clock.now())


async def booted(world: World, *, with_port: bool = True) -> Server:
    engine, new = world.engine("e"), world.new_server("s")
    new = with_devices(new) if with_port else new
    return await boot_server(world, engine, new, H1)


async def resize(world: World, server: Server) -> None:
    engine = world.engine("e")
    await requests.resize(world.cloud, engine, world.requester(), server, LARGE)
    await world.settle(engine)


async def test_an_old_source_refuses_the_request_until_it_is_upgraded() -> None:
    world = await world_with(H1)
    server = await booted(world)
    with pytest.raises(Conflict, match="not yet supported on the source compute: the agent of host h1 is of release"):
        await resize(world, server)
    with pytest.raises(Conflict, match="not yet supported on the source compute"):
        await requests.migrate(world.cloud, world.engine("e"), world.requester(), server, None)
    assert not await world.cloud.journal.find(RunFilter(only_open=True))
    await start_agent(world, H1, NEW)
    await resize(world, server)
    assert (await lookup.find(world.cloud, server.id)).vm_state == "resized"
    await world.close()


async def test_an_old_target_is_passed_over() -> None:
    for old, chosen in ((H2, H3), (H3, H2)):
        world = await world_with(old)
        server = await booted(world)
        await resize(world, server)
        moved = await lookup.find(world.cloud, server.id)
        assert (moved.vm_state, moved.host) == ("resized", chosen)
        await world.close()


async def test_without_a_new_target_the_move_is_undone_and_says_why() -> None:
    world = await world_with(H2, H3)
    server = await booted(world)
    await resize(world, server)
    [run] = [run for run in await world.cloud.journal.find(RunFilter()) if run.saga == "resize"]
    assert (run.state, run.turned) == ("undone", "refused")
    assert "its agent is of release 0.0.9, which does not move servers with ports that request" in (run.message or "")
    assert (await lookup.find(world.cloud, server.id)).vm_state == "active"
    await world.close()


async def test_a_server_without_such_ports_is_moved_by_any_agent() -> None:
    world = await world_with(H1, H2, H3)
    server = await booted(world, with_port=False)
    await resize(world, server)
    assert (await lookup.find(world.cloud, server.id)).vm_state == "resized"
    await world.close()


async def test_an_agent_that_writes_no_config_drives_gets_no_server_with_one() -> None:
    world = await world_with(H1, H2, release=BEFORE_DRIVES)
    engine, new = world.engine("e"), world.new_server("s")
    new.config_drive = True
    server = await boot_server(world, engine, new)
    assert (server.vm_state, server.host) == ("active", H3)
    await resize(world, server)
    [run] = [run for run in await world.cloud.journal.find(RunFilter()) if run.saga == "resize"]
    assert "release 0.1.9, which does not write config drives" in (run.message or "")
    await start_agent(world, H2, FIRST_WITH_DRIVES)
    await resize(world, await lookup.find(world.cloud, new.id))
    assert (await lookup.find(world.cloud, new.id)).host == H2
    await world.close()


async def test_an_agent_that_gives_all_guests_the_same_hardware_gets_none_with_hardware_of_its_own() -> None:
    world = await world_with(H1, H2, release=BEFORE_DRIVES)
    engine, new = world.engine("e"), world.new_server("s")
    new.heeds_hardware, new.image_properties = True, {"hw_watchdog_action": "reset"}
    server = await boot_server(world, engine, new)
    assert (server.vm_state, server.host) == ("active", H3)
    await resize(world, server)
    [run] = [run for run in await world.cloud.journal.find(RunFilter()) if run.saga == "resize"]
    assert "release 0.1.9, which gives all guests the same hardware" in (run.message or "")
    await start_agent(world, H2, FIRST_WITH_HARDWARE)
    await resize(world, await lookup.find(world.cloud, new.id))
    assert (await lookup.find(world.cloud, new.id)).host == H2
    await world.close()
