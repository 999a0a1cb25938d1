"""Orders on one server come one after the other, and those of a conductor that slept do nothing."""

import asyncio

import pytest

from tests.hand_clock import HandClock
from tests.host_room import H1, Room, boot, order, spec
from whimbrel.agent.agent import HostAgent
from whimbrel.domain.errors import Refused, Superseded
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.server_devices import GuestNic, GuestVolume
from whimbrel.domain.volume_merge import Merge
from whimbrel.sim.world.phases import Times

NIC = GuestNic(port_id="port-1", mac="fa:16:3e:00:00:01", vif_type="ovs")
VOLUME = GuestVolume(volume_id="volume-1", attachment_id="a", device="/dev/vdb", connection={"driver_volume_type": "x"})
ONE, TWO = spec("server-1"), spec("server-2")


async def power(agent: HostAgent, key: GuestKey) -> str | None:
    guest = await agent.look(key)
    return guest.power if guest else None


async def slow_room(clock: HandClock, *specs: GuestSpec) -> Room:
    """Return a room with these guests running on h1, where from now on start and stop take ten seconds."""
    room = Room(clock=clock)
    for each in specs:
        await boot(room.agents[H1], each, order(f"build {each.name}"))
    room.times = Times(start_s=10.0, stop_s=10.0)
    await room.crash()
    return room


async def test_every_changing_verb_is_fenced() -> None:
    room = Room()
    agent = room.agents[H1]
    await boot(agent, ONE, order(epoch=2))
    late = order(epoch=1)
    for attempt in (
        agent.prepare(late, TWO),
        agent.build_disk(late, ONE),
        agent.export_disk(late, ONE.key),
        agent.unexport_disk(late, ONE.key),
        agent.discard_disk(late, ONE.key),
        agent.define(late, ONE),
        agent.start(late, ONE.key),
        agent.stop(late, ONE.key, 60),
        agent.reboot(late, ONE.key, True),
        agent.plug(late, ONE.key, NIC),
        agent.unplug(late, ONE.key, NIC.port_id),
        agent.attach_volume(late, ONE.key, VOLUME),
        agent.detach_volume(late, ONE.key, VOLUME.volume_id),
        agent.swap_volume(late, ONE.key, VOLUME.volume_id, VOLUME),
        agent.end_volume_swap(late, ONE.key, VOLUME.volume_id, VOLUME.attachment_id),
        agent.extend_volume(late, ONE.key, VOLUME.volume_id, 2),
        agent.take_volume_snapshot(late, ONE.key, VOLUME.volume_id, "file"),
        agent.merge_volume_files(late, ONE.key, VOLUME.volume_id, Merge()),
        agent.destroy(late, ONE.key),
        agent.upload_snapshot(late, ONE.key, "shot"),
    ):
        with pytest.raises(Superseded):
            await attempt
    assert await power(agent, ONE.key) == "running"
    assert await agent.look(TWO.key) is None


async def test_the_fence_survives_the_agent() -> None:
    room = Room()
    await boot(room.agents[H1], ONE, order(epoch=2))
    await room.crash()
    with pytest.raises(Superseded):
        await room.agents[H1].destroy(order(epoch=1), ONE.key)


async def test_an_order_that_waited_when_a_newer_one_came_does_nothing() -> None:
    clock = HandClock()
    agent = (await slow_room(clock, ONE)).agents[H1]
    first = asyncio.ensure_future(agent.reboot(order("move", 1), ONE.key, False))
    await clock.advance(1.0)
    sleeper = asyncio.ensure_future(agent.destroy(order("move", 1), ONE.key))
    await clock.advance(1.0)
    newer = asyncio.ensure_future(agent.start(order("move", 2), ONE.key))
    await clock.advance(30.0)
    await first
    with pytest.raises(Superseded):
        await sleeper
    await newer
    assert await power(agent, ONE.key) == "running"


async def test_orders_on_one_server_never_interleave() -> None:
    clock = HandClock()
    room = await slow_room(clock, ONE)
    agent = room.agents[H1]
    stop = asyncio.ensure_future(agent.stop(order("move"), ONE.key, 60))
    start = asyncio.ensure_future(agent.start(order("move"), ONE.key))
    await clock.advance(15.0)
    assert stop.done()
    assert not start.done()
    await clock.advance(5.0)
    await start
    assert "boot 2" in await agent.console_log(ONE.key, 1)


async def test_orders_on_two_servers_do_not_wait_for_each_other() -> None:
    clock = HandClock()
    agent = (await slow_room(clock, ONE, TWO)).agents[H1]
    stops = asyncio.gather(*(agent.stop(order(f"stop {each.key.server}"), each.key, 60) for each in (ONE, TWO)))
    await clock.advance(10.0)
    assert stops.done()
    await stops


async def test_one_can_look_while_an_order_is_at_work() -> None:
    clock = HandClock()
    agent = (await slow_room(clock, ONE)).agents[H1]
    stop = asyncio.ensure_future(agent.stop(order(), ONE.key, 60))
    await clock.advance(1.0)
    assert await power(agent, ONE.key) == "running"
    await clock.advance(9.0)
    await stop


async def test_a_caller_who_dies_leaves_the_server_free() -> None:
    clock = HandClock()
    agent = (await slow_room(clock, ONE)).agents[H1]
    dying = asyncio.ensure_future(agent.stop(order("move", 1), ONE.key, 60))
    await clock.advance(1.0)
    dying.cancel()
    again = asyncio.ensure_future(agent.stop(order("move", 2), ONE.key, 60))
    await clock.advance(10.0)
    await again
    assert await power(agent, ONE.key) == "stopped"


async def test_destroy_takes_the_slot_that_is_named() -> None:
    agent = Room().agents[H1]
    await boot(agent, ONE, order())
    new = spec("server-1", slot="new")
    await agent.prepare(order("new"), new)
    await agent.destroy(order("new"), new.key)
    assert [guest.key for guest in await agent.guests()] == [ONE.key]


async def test_what_is_missing_is_refused() -> None:
    agent = Room().agents[H1]
    for attempt in (
        agent.start(order(), ONE.key),
        agent.define(order(), ONE),
        agent.build_disk(order(), ONE),
        agent.export_disk(order(), ONE.key),
    ):
        with pytest.raises(Refused):
            await attempt


async def test_it_tells_what_is_here_when_it_starts() -> None:
    room = Room()
    await boot(room.agents[H1], ONE, order())
    await room.crash()
    assert [(guest.key, guest.power) for guest in await room.agents[H1].open()] == [(ONE.key, "running")]


async def test_pruning_forgets_old_runs() -> None:
    room = Room()
    agent = room.agents[H1]
    await boot(agent, ONE, order(epoch=2))
    await agent.prune(before=room.clock.now() + 1)
    await agent.stop(order(epoch=1), ONE.key, 60)
    assert await power(agent, ONE.key) == "stopped"
