"""What a conductor may count on from every way to an agent: in the same process, over HTTP and over NATS."""

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from tests.host_room import H1, H2, IMAGE, Room, boot, order, spec
from tests.nats_servers import cloud_bus
from whimbrel.adapters.bus.agent_client import HttpAgents
from whimbrel.adapters.bus.agent_server import agents_app
from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.adapters.bus.nats_agents import NatsAgents, serve_agent
from whimbrel.domain.errors import NotFound, Refused, Superseded, Unavailable
from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import HostName
from whimbrel.domain.live_transfer import Steering, TransferOptions
from whimbrel.domain.server_devices import GuestNic, GuestVolume
from whimbrel.domain.volume_merge import Merge
from whimbrel.embedded.console import relay_client
from whimbrel.ports.hosts.agent import Agents
from whimbrel.ports.services.images import Image
from whimbrel.sim.world.phases import Times

PCI = "0000:81:00.1"
NIC = GuestNic(port_id="port-1", mac="fa:16:3e:00:00:01", vif_type="ovs", vif_details={"port_filter": True}, mtu=1450)
VOLUME = GuestVolume(
    volume_id="volume-1",
    attachment_id="attachment-1",
    device="/dev/vdb",
    connection={"driver_volume_type": "nbd", "data": {"server": "127.0.0.1", "port": 10809, "export": "one"}},
)
TARGET = replace(VOLUME, volume_id="volume-2", attachment_id="attachment-2")
"""The volume to which it is swapped."""
OLD, NEW = spec(slot="old"), spec(slot="new", root_gib=2)
Assignment = Callable[[Room], AbstractAsyncContextManager[Agents]]


@asynccontextmanager
async def in_process(room: Room) -> AsyncIterator[Agents]:
    yield LocalAgents(room.agents)


@asynccontextmanager
async def over_http(room: Room) -> AsyncIterator[Agents]:
    endpoint = agents_app(LocalAgents(room.agents), "secret")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(endpoint)) as client:
        yield HttpAgents("http://hosts.test", "secret", client)


@asynccontextmanager
async def over_nats(room: Room) -> AsyncIterator[Agents]:
    """Each host has a connection of its own, with a key of its own."""

    async def session_of(host: HostName) -> int:
        return 7 if host in room.agents else 0

    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        bus = await stack.enter_async_context(cloud_bus(Path(directory)))
        for host, agent in room.agents.items():
            connection = await stack.enter_async_context(await bus.agent(host))
            await connection.connected()
            await stack.enter_async_context(serve_agent(connection, host, 7, agent))
        yield NatsAgents(await stack.enter_async_context(bus.cell()), session_of)


every_way = pytest.mark.parametrize("way", [in_process, over_http, over_nats])


@every_way
async def test_a_guest_from_its_first_to_its_last_day(way: Assignment) -> None:
    async with way(Room()) as agents:
        agent = agents.at(H1)
        assert await agent.look(OLD.key) is None
        await boot(agent, OLD, order())
        guest = Guest(key=OLD.key, power="running", vcpus=1, memory_mib=512, root_gib=1, has_disk=True, disks=("root",))
        assert await agent.look(OLD.key) == guest
        assert await agent.guests() == [guest]
        await agent.reboot(order(), OLD.key, False)
        await agent.reboot(order(), OLD.key, hard=True)
        assert (await agent.console_log(OLD.key, None)).count("boot ") == 3
        assert "boot 3" in await agent.console_log(OLD.key, 1)
        await agent.stop(order(), OLD.key, 60.0)
        await agent.destroy(order(), OLD.key)
        assert await agent.guests() == []


@every_way
async def test_a_disk_goes_from_host_to_host(way: Assignment) -> None:
    room = Room()
    async with way(room) as agents:
        source, target = agents.at(H1), agents.at(H2)
        await boot(source, OLD, order("build"))
        by = order("move")
        await target.prepare(by, NEW)
        await source.stop(by, OLD.key, 60.0)
        export = await source.export_disk(by, OLD.key)
        assert (await target.import_disk(by, NEW, export)).finished
        await source.unexport_disk(by, OLD.key)
        await target.define(by, NEW)
        await target.start(by, NEW.key)
        assert "boot 2, now on h2" in await target.console_log(NEW.key, 1)
        await source.destroy(by, OLD.key)
        assert [host for host, _ in room.world.guests()] == [H2]
        assert room.world.double_runs == []


@every_way
async def test_a_disk_goes_by_the_image_service(way: Assignment) -> None:
    room = Room()
    async with way(room) as agents:
        source, target = agents.at(H1), agents.at(H2)
        await boot(source, OLD, order("build"))
        by, image = (
            order("move"),
            Image(id="parcel", name="", status="queued", disk_format="raw", size_bytes=0, checksum=None),
        )
        await room.images.create(image)
        await target.prepare(by, NEW)
        await source.stop(by, OLD.key, 60.0)
        assert (await source.upload_snapshot(by, OLD.key, image.id)).finished
        for _ in range(2):
            assert (await target.fetch_disk(by, NEW, image.id)).finished
        await target.define(by, NEW)
        await target.start(by, NEW.key)
        assert "boot 2, now on h2" in await target.console_log(NEW.key, 1)


@every_way
async def test_the_ephemeral_disk_goes_either_way_and_swap_is_made_anew(way: Assignment) -> None:
    old, new = (replace(each, ephemeral_gib=1, swap_mib=64) for each in (OLD, NEW))
    for by_image in (False, True):
        room = Room()
        async with way(room) as agents:
            source, target, by = agents.at(H1), agents.at(H2), order("move")
            await boot(source, old, order("build"))
            await target.prepare(by, new)
            await source.stop(by, old.key, 60.0)
            for name in ("root", "ephemeral"):
                if by_image:
                    transfer_image = Image(
                        id=name, name="", status="queued", disk_format="raw", size_bytes=0, checksum=None
                    )
                    await room.images.create(transfer_image)
                    assert (await source.upload_snapshot(by, old.key, name, name)).finished
                    assert (await target.fetch_disk(by, new, name, name)).finished
                else:
                    export = await source.export_disk(by, old.key, name)
                    assert (await target.import_disk(by, new, export, name)).finished
            await source.unexport_disk(by, old.key)
            assert (await target.build_disk(by, new)).finished
            await target.define(by, new)
            await target.start(by, new.key)
            said = await target.console_log(new.key, 1)
            assert "ephemeral disk of 1073741824 bytes first used as server-1 on h1" in said
            assert "swap disk of 67108864 bytes first used as server-1 on h2" in said


@every_way
async def test_every_changing_call_may_be_repeated(way: Assignment) -> None:
    async with way(Room()) as agents:
        agent, by = agents.at(H1), order()
        for _ in range(2):
            await agent.prepare(by, OLD)
        for _ in range(2):
            assert (await agent.build_disk(by, OLD)).finished
        for _ in range(2):
            await agent.define(by, OLD)
        for _ in range(2):
            await agent.start(by, OLD.key)
        for _ in range(2):
            await agent.plug(by, OLD.key, NIC)
        for _ in range(2):
            await agent.attach_volume(by, OLD.key, VOLUME)
        for _ in range(2):
            assert (await agent.swap_volume(by, OLD.key, VOLUME.volume_id, TARGET)).finished
        for _ in range(2):
            with pytest.raises(Refused, match="new volume"):
                await agent.end_volume_swap(by, OLD.key, VOLUME.volume_id, TARGET.attachment_id)
        for _ in range(2):
            await agent.extend_volume(by, OLD.key, VOLUME.volume_id, 2)
        for _ in range(2):
            await agent.take_volume_snapshot(by, OLD.key, VOLUME.volume_id, "file")
        for _ in range(2):
            assert (await agent.merge_volume_files(by, OLD.key, VOLUME.volume_id, Merge())).finished
        for _ in range(2):
            await agent.unplug(by, OLD.key, NIC.port_id)
        for _ in range(2):
            await agent.detach_volume(by, OLD.key, VOLUME.volume_id)
        for _ in range(2):
            await agent.stop(by, OLD.key, 60.0)
        for _ in range(2):
            assert (await agent.export_disk(by, OLD.key)).scheme == "simulated"
        for _ in range(2):
            await agent.unexport_disk(by, OLD.key)
        for _ in range(2):
            await agent.discard_disk(by, OLD.key)
        for _ in range(2):
            await agent.destroy(by, OLD.key)


@every_way
async def test_undoing_what_never_was_is_fine(way: Assignment) -> None:
    async with way(Room()) as agents:
        agent, by = agents.at(H1), order()
        await agent.stop(by, OLD.key, 60.0)
        await agent.unexport_disk(by, OLD.key)
        await agent.unplug(by, OLD.key, NIC.port_id)
        await agent.detach_volume(by, OLD.key, VOLUME.volume_id)
        await agent.end_volume_swap(by, OLD.key, VOLUME.volume_id, TARGET.attachment_id)
        await agent.discard_disk(by, OLD.key)
        await agent.destroy(by, OLD.key)
        assert await agent.guests() == []


@every_way
async def test_devices_go_to_the_guest_and_come_back(way: Assignment) -> None:
    async with way(Room()) as agents:
        agent, by = agents.at(H1), order()
        await boot(agent, replace(OLD, nics=(NIC,), pci=(PCI,)), by)
        await agent.attach_volume(by, OLD.key, VOLUME)
        guest = await agent.look(OLD.key)
        assert guest
        assert (guest.ports, guest.volumes, guest.pci) == ((NIC.port_id,), (VOLUME.volume_id,), (PCI,))
        await agent.unplug(by, OLD.key, NIC.port_id)
        await agent.detach_volume(by, OLD.key, VOLUME.volume_id)
        guest = await agent.look(OLD.key)
        assert guest
        assert (guest.ports, guest.volumes, guest.pci) == ((), (), (PCI,))


@every_way
async def test_a_host_tells_who_it_is(way: Assignment) -> None:
    async with way(Room()) as agents:
        assert [(await agents.at(host).connector())["host"] for host in (H1, H2)] == [H1, H2]
        assert "load average" in await agents.at(H1).uptime()


@every_way
async def test_a_long_order_is_asked_for_until_it_is_finished(way: Assignment) -> None:
    async with way(Room(times=Times(build_disk_s=60.0))) as agents:
        agent, by = agents.at(H1), order()
        await agent.prepare(by, OLD)
        first = await agent.build_disk(by, OLD)
        assert not first.finished
        assert first.percent < 100
        while not (await agent.build_disk(by, OLD)).finished:
            pass


@every_way
async def test_a_running_guest_goes_to_another_host(way: Assignment) -> None:
    async with way(Room()) as agents:
        source, target, by = agents.at(H1), agents.at(H2), order()
        await boot(source, OLD, by)
        await source.pause(by, OLD.key)
        await source.suspend(by, OLD.key)
        await source.resume(by, OLD.key)
        live = await source.examine(OLD.key)
        assert (await target.compare_cpu(live.cpu)).fits
        await target.prepare(by, NEW)
        where = await target.receive(by, NEW, live)
        assert (await source.transfer(by, OLD.key, where, TransferOptions())).state == "arrived"
        assert (await source.transfer(by, OLD.key, where, TransferOptions())).state == "arrived"
        await source.steer_transfer(by, OLD.key, Steering(suspend=True))
        await target.settle_arrival(by, NEW.key)
        seen = await source.look(OLD.key), await target.look(NEW.key)
        assert [guest and guest.power for guest in seen] == ["stopped", "running"]


@every_way
async def test_an_ended_transfer_does_not_begin_again_by_an_earlier_order(way: Assignment) -> None:
    async with way(Room(times=Times(live_mib_s=1.0))) as agents:
        source, target, by = agents.at(H1), agents.at(H2), order()
        await boot(source, OLD, by)
        await target.prepare(by, NEW)
        where = await target.receive(by, NEW, await source.examine(OLD.key))
        assert (await source.transfer(by, OLD.key, where, TransferOptions())).state == "active"
        for _ in "ab":
            await source.end_transfer(by, OLD.key)
        with pytest.raises(Refused, match="was ended"):
            await source.transfer(by, OLD.key, where, TransferOptions())
        later = replace(by, epoch=by.epoch + 1)
        assert (await source.transfer(later, OLD.key, where, TransferOptions())).state == "active"
        with pytest.raises(Superseded):
            await source.end_transfer(by, OLD.key)


@every_way
async def test_a_snapshot_becomes_an_image(way: Assignment) -> None:
    room = Room()
    image = Image(id="shot", name="shot", status="queued", disk_format="qcow2", size_bytes=0, checksum=None)
    await room.images.create(image)
    async with way(room) as agents:
        await boot(agents.at(H1), OLD, order())
        assert (await agents.at(H1).upload_snapshot(order("shot"), OLD.key, "shot")).finished
    assert (await room.images.show("shot")).status == "active"
    assert (await room.images.show("shot")).checksum != (await room.images.show(IMAGE)).checksum


@every_way
async def test_errors_arrive_by_their_names(way: Assignment) -> None:
    async with way(Room()) as agents:
        agent = agents.at(H1)
        with pytest.raises(Refused, match="h1 has 4096 MiB of memory left, 5000 are wanted"):
            await agent.prepare(order(epoch=2), spec(memory_mib=5000))
        with pytest.raises(Superseded, match="run-1"):
            await agent.prepare(order(epoch=1), OLD)
        with pytest.raises(NotFound):
            await agent.console_log(OLD.key, None)
        with pytest.raises(Refused, match="nothing of"):
            await agent.plug(order(epoch=2), OLD.key, NIC)
        with pytest.raises(Unavailable, match="nowhere"):
            await agents.at(HostName("nowhere")).look(OLD.key)


@every_way
async def test_an_image_is_fetched_before_a_guest_needs_it(way: Assignment) -> None:
    room = Room()
    async with way(room) as agents:
        agent = agents.at(H1)
        for _ in "ab":
            assert (await agent.cache_image(IMAGE)).finished
        await room.images.delete(IMAGE)
        await boot(agent, OLD, order())
        with pytest.raises(Refused, match="no image other"):
            await agent.cache_image("other")


@every_way
async def test_a_console_is_opened_for_one_client(way: Assignment) -> None:
    room = Room()
    async with way(room) as agents:
        agent = agents.at(H1)
        with pytest.raises((NotFound, Refused)):
            await agent.open_console(OLD.key, "serial")
        await boot(agent, OLD, order())
        console = await relay_client.connect(await agent.open_console(OLD.key, "serial"))
        assert b"simulated guest server-1" in await console.read()
        console.close()
        await agent.stop(order(), OLD.key, 60.0)
        with pytest.raises(Refused, match="does not run"):
            await agent.open_console(OLD.key, "vnc")
    for each in room.agents.values():
        await each.close()
