"""A long order is one job, whoever asks for it and however often; what is not wanted any more is ended."""

import asyncio

import pytest

from tests.hand_clock import HandClock, settle
from tests.host_room import H1, H2, Room, boot, order, spec
from whimbrel.domain.errors import Refused, Superseded, Unavailable
from whimbrel.domain.guest import Progress
from whimbrel.ports.services.images import Image
from whimbrel.sim.world.phases import Times

ONE = spec("server-1")
NEW = spec("server-1", slot="new")
SLOW = Times(build_disk_s=10.0, copy_disk_s=10.0, snapshot_s=10.0)


async def slow_room(clock: HandClock) -> Room:
    """Return a room in which a copy takes ten seconds and askers wait three; ONE has its place on h1."""
    room = Room(clock=clock, times=SLOW)
    await room.agents[H1].prepare(order(), ONE)
    return room


async def test_it_tells_how_far_it_is_and_when_it_is_finished() -> None:
    clock = HandClock()
    agent = (await slow_room(clock)).agents[H1]
    told = []
    for _ in range(4):
        asked = asyncio.ensure_future(agent.build_disk(order(), ONE))
        await clock.advance(3.0)
        told.append(await asked)
    assert [(progress.finished, progress.percent) for progress in told] == [
        (False, 25),
        (False, 55),
        (False, 85),
        (True, 100),
    ]


async def test_who_asks_later_joins() -> None:
    clock = HandClock()
    agent = (await slow_room(clock)).agents[H1]
    first = asyncio.ensure_future(agent.build_disk(order(epoch=1), ONE))
    await clock.advance(8.0)
    second = asyncio.ensure_future(agent.build_disk(order(epoch=2), ONE))
    await clock.advance(2.0)
    assert not (await first).finished
    assert (await second).finished, "the other conductor did not begin anew"


async def test_a_finished_one_is_not_done_again() -> None:
    room = Room()
    agent = room.agents[H1]
    await boot(agent, ONE, order())
    assert (await agent.build_disk(order(), ONE)).finished
    await room.crash()
    room.hypervisors[H1].refusing = {"create_disk"}
    assert (await room.agents[H1].build_disk(order(epoch=2), ONE)).finished, "it was not even asked to"
    disk = await room.hypervisors[H1].disk(ONE.key)
    assert disk
    assert disk.contents.boots == 1, "it is still the disk that was booted from"


async def test_one_that_ran_when_the_agent_died_starts_anew() -> None:
    clock = HandClock()
    room = await slow_room(clock)
    first = asyncio.ensure_future(room.agents[H1].build_disk(order(), ONE))
    await clock.advance(8.0)
    assert not (await first).finished
    await room.crash()
    agent = room.agents[H1]
    assert await agent.guests()
    again = asyncio.ensure_future(agent.build_disk(order(), ONE))
    await clock.advance(3.0)
    assert (await again).percent == 25
    await clock.advance(7.0)
    assert (await agent.build_disk(order(), ONE)).finished


async def test_a_requester_that_dies_leaves_the_job_running() -> None:
    clock = HandClock()
    agent = (await slow_room(clock)).agents[H1]
    dying = asyncio.ensure_future(agent.build_disk(order(), ONE))
    await clock.advance(1.0)
    dying.cancel()
    await clock.advance(9.0)
    assert (await agent.build_disk(order(epoch=2), ONE)).finished


async def test_a_failure_is_shown_once_and_then_it_starts_anew() -> None:
    clock = HandClock()
    room = await slow_room(clock)
    agent, host = room.agents[H1], room.hypervisors[H1]
    host.refusing = {"create_disk"}
    with pytest.raises(Refused, match="told to refuse"):
        await agent.build_disk(order(), ONE)
    host.refusing = set()
    again = asyncio.ensure_future(agent.build_disk(order(), ONE))
    await clock.advance(3.0)
    assert not (await again).finished


async def test_an_unread_failure_is_returned_to_the_next_request() -> None:
    clock = HandClock()
    room = Room(clock=clock, times=SLOW)
    h1, h2 = room.agents[H1], room.agents[H2]
    await boot_stopped(room, clock)
    export = await h1.export_disk(order("new"), ONE.key)
    await h2.prepare(order("new"), NEW)
    asked = asyncio.ensure_future(h2.import_disk(order("new"), NEW, export))
    await clock.advance(3.0)
    assert not (await asked).finished
    await h1.unexport_disk(order("new"), ONE.key)
    await clock.advance(7.0)
    with pytest.raises(Unavailable, match="does not offer"):
        await h2.import_disk(order("new"), NEW, export)


async def boot_stopped(room: Room, clock: HandClock) -> None:
    """Create ONE on h1, with a disk, stopped."""
    agent = room.agents[H1]
    await agent.prepare(order(), ONE)
    build = asyncio.ensure_future(agent.build_disk(order(), ONE))
    await clock.advance(10.0)
    await build
    await agent.build_disk(order(), ONE)
    await agent.define(order(), ONE)


@pytest.mark.parametrize("verb", ["discard_disk", "destroy"])
async def test_who_discards_ends_the_copy_first(verb: str) -> None:
    clock = HandClock()
    room = await slow_room(clock)
    agent = room.agents[H1]
    asked = asyncio.ensure_future(agent.build_disk(order(epoch=1), ONE))
    await clock.advance(1.0)
    discard = asyncio.ensure_future(getattr(agent, verb)(order(epoch=2), ONE.key))
    await settle()
    assert discard.done(), "nobody waited for the copy"
    with pytest.raises(Unavailable, match="ended"):
        await asked
    assert await room.hypervisors[H1].disk(ONE.key) is None
    with pytest.raises(Superseded):
        await agent.build_disk(order(epoch=1), ONE)


async def test_who_discards_ends_a_copy_that_waits_for_its_turn() -> None:
    clock = HandClock()
    room = await slow_room(clock)
    agent = room.agents[H1]
    at_work = asyncio.ensure_future(agent.build_disk(order(), ONE))
    await clock.advance(1.0)
    waiting = asyncio.ensure_future(agent.build_disk(order("new"), NEW))
    await clock.advance(1.0)
    discard = asyncio.ensure_future(agent.discard_disk(order("new"), NEW.key))
    await settle()
    with pytest.raises(Unavailable, match="ended"):
        await waiting
    await clock.advance(8.0)
    await discard
    await at_work
    assert (await agent.build_disk(order(epoch=2), ONE)).finished, "the other slot's copy went on"


async def two_in_line(clock: HandClock) -> tuple[Room, "asyncio.Future[Progress]"]:
    """Return a room in which the build of ONE is at work and that of NEW, by epoch 1, waits for its turn."""
    room = Room(clock=clock, times=SLOW, wait_s=100.0)
    agent = room.agents[H1]
    for by, what in ((order("earlier"), NEW), (order(), ONE)):
        await agent.prepare(by, what)
    at_work = asyncio.ensure_future(agent.build_disk(order(), ONE))
    await settle()
    waiting = asyncio.ensure_future(agent.build_disk(order("new", 1), NEW))
    await settle()
    assert not at_work.done()
    return room, waiting


async def test_a_job_that_waited_when_a_newer_order_came_does_nothing() -> None:
    clock = HandClock()
    room, late = await two_in_line(clock)
    newer = asyncio.ensure_future(room.agents[H1].unexport_disk(order("new", 2), NEW.key))
    await clock.advance(30.0)
    await newer
    with pytest.raises(Superseded):
        late.result()
    assert await room.hypervisors[H1].disk(NEW.key) is None


async def test_a_job_that_waited_belongs_to_its_newest_requester() -> None:
    clock = HandClock()
    room, first = await two_in_line(clock)
    second = asyncio.ensure_future(room.agents[H1].build_disk(order("new", 2), NEW))
    await clock.advance(20.0)
    assert second.done()
    assert (await second).finished
    assert (await first).finished


async def register(room: Room) -> None:
    image = Image(id="shot", name="shot", status="queued", disk_format="qcow2", size_bytes=0, checksum=None)
    await room.images.create(image)


async def test_a_snapshot_is_uploaded_once() -> None:
    clock = HandClock()
    room = Room(clock=clock, times=SLOW)
    await boot_stopped(room, clock)
    await register(room)
    agent = room.agents[H1]
    asked = asyncio.ensure_future(agent.upload_snapshot(order("shot"), ONE.key, "shot"))
    await clock.advance(3.0)
    assert (await asked).percent == 25
    await clock.advance(7.0)
    assert (await agent.upload_snapshot(order("shot"), ONE.key, "shot")).finished
    await room.crash()
    again = asyncio.ensure_future(room.agents[H1].upload_snapshot(order("shot"), ONE.key, "shot"))
    await settle()
    assert again.done(), "it takes no time"
    assert (await again).finished
    assert (await room.images.show("shot")).status == "active"


async def test_a_snapshot_into_an_image_that_was_deleted_is_refused() -> None:
    room = Room()
    await boot(room.agents[H1], ONE, order())
    with pytest.raises(Refused):
        await room.agents[H1].upload_snapshot(order("shot"), ONE.key, "shot")


async def test_pruning_forgets_the_end_that_nobody_asked_for() -> None:
    clock = HandClock()
    room = await slow_room(clock)
    agent = room.agents[H1]
    asked = asyncio.ensure_future(agent.build_disk(order(), ONE))
    await clock.advance(3.0)
    assert not (await asked).finished
    await agent.prune(before=clock.now() + 1)
    await clock.advance(7.0)
    await agent.prune(before=clock.now() + 1)
    assert (await agent.build_disk(order(), ONE)).finished
