"""Images are fetched ahead one after another, and a repeated request joins the fetch."""

import asyncio

import pytest

from tests.hand_clock import HandClock
from tests.host_room import H1, IMAGE, Room
from whimbrel.agent.agent import HostAgent
from whimbrel.agent.image_fetches import WAIT_S
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Progress
from whimbrel.sim.world.images import MemoryImages
from whimbrel.sim.world.phases import Times

OTHER = "image-2"
FETCH_S = 20.0


def slow_room(clock: HandClock) -> Room:
    images = MemoryImages({IMAGE: b"tick", OTHER: b"tock"})
    return Room(times=Times(copy_disk_s=FETCH_S), clock=clock, images=images)


async def answered(agent: HostAgent, clock: HandClock, image_id: str) -> Progress:
    asked = asyncio.ensure_future(agent.cache_image(image_id))
    await clock.advance(WAIT_S)
    return await asked


async def test_a_request_does_not_wait_for_a_long_fetch_and_a_repeated_one_joins_it() -> None:
    clock = HandClock()
    room = slow_room(clock)
    for _ in "ab":
        assert not (await answered(room.agents[H1], clock, IMAGE)).finished
    assert IMAGE not in room.world.images
    await clock.advance(FETCH_S - 2 * WAIT_S)
    assert IMAGE in room.world.images
    assert (await answered(room.agents[H1], clock, IMAGE)).finished


async def test_one_image_is_fetched_after_the_other() -> None:
    clock = HandClock()
    room = slow_room(clock)
    for image in (IMAGE, OTHER):
        assert not (await answered(room.agents[H1], clock, image)).finished
    await clock.advance(FETCH_S)
    assert (IMAGE in room.world.images, OTHER in room.world.images) == (True, False)
    await clock.advance(FETCH_S)
    assert OTHER in room.world.images


async def test_a_fetch_that_ended_with_its_process_is_begun_again() -> None:
    clock = HandClock()
    room = slow_room(clock)
    await answered(room.agents[H1], clock, IMAGE)
    await room.crash()
    await clock.advance(FETCH_S)
    assert IMAGE not in room.world.images
    await answered(room.agents[H1], clock, IMAGE)
    await clock.advance(FETCH_S)
    assert IMAGE in room.world.images


async def test_a_failed_fetch_is_not_remembered() -> None:
    clock = HandClock()
    room = slow_room(clock)
    room.hypervisors[H1].refusing.add("cache_image")
    with pytest.raises(Refused):
        await answered(room.agents[H1], clock, IMAGE)
    room.hypervisors[H1].refusing.clear()
    assert not (await answered(room.agents[H1], clock, IMAGE)).finished
    await clock.advance(FETCH_S)
    assert (await answered(room.agents[H1], clock, IMAGE)).finished
