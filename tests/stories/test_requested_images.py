"""Administrators request images on hosts ahead of their first use: hosts fetch them, or the request is given up."""

import pytest

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import HostName
from whimbrel.hosts.image_grants import ImageGrants
from whimbrel.ports.stores.image_fetches import ImageFetch
from whimbrel.reconcilers.requested_images import AT_ONCE, GIVEN_UP_AFTER_S, RETRY_S
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.sim.cloud.cloud import CELL, IMAGE, World

H1, H2 = HostName("h1"), HostName("h2")


async def request(world: World, *hosts: HostName, image_id: str = IMAGE) -> None:
    now = world.cloud.clock.now()
    await world.cloud.image_fetches.add(
        [ImageFetch(host=host, cell=CELL, image_id=image_id, requested_at=now, due_at=now) for host in hosts]
    )


async def waiting(world: World) -> list[HostName]:
    return [fetch.host for fetch in await world.cloud.image_fetches.due(float("inf"), 100)]


async def look(world: World, after_s: float = 0.0) -> None:
    await world.cloud.clock.sleep(after_s)
    await reconcile(world.cloud, world.engine("one"))


async def test_hosts_fetch_what_is_requested() -> None:
    world = await World.build()
    await request(world, H1, H2)
    await look(world)
    assert IMAGE in world.simulated.images
    assert await waiting(world) == []


async def test_what_a_host_refuses_is_given_up_and_others_get_theirs() -> None:
    world = await World.build()
    world.hypervisors[H1].refusing.add("cache_image")
    await request(world, H1, H2)
    await request(world, H2, image_id="no-such-image")
    await request(world, HostName("retired"))
    await look(world)
    assert await waiting(world) == []
    assert IMAGE in world.simulated.images


async def test_a_host_that_is_down_is_left_out() -> None:
    world = await World.build(seen_at=0.0)
    await request(world, H1)
    await look(world, after_s=100.0)
    assert await waiting(world) == []
    assert IMAGE not in world.simulated.images


async def test_a_silent_host_lets_others_go_first_and_is_given_up_in_the_end() -> None:
    world = await World.build([f"h{number}" for number in range(AT_ONCE + 1)])
    silent = [HostName(f"h{number}") for number in range(AT_ONCE)]
    for host in silent:
        world.disconnect(host)
    last = HostName(f"h{AT_ONCE}")
    await request(world, *silent)
    await world.cloud.clock.sleep(1.0)
    await request(world, last)
    await look(world)
    assert await waiting(world) == [last, *silent]
    await look(world, after_s=RETRY_S / 2)
    assert await waiting(world) == silent
    world.reconnect(H1)
    await look(world, after_s=RETRY_S)
    assert set(await waiting(world)) == set(silent) - {H1}
    await look(world, after_s=GIVEN_UP_AFTER_S)
    assert await waiting(world) == []


async def test_a_host_may_read_what_is_requested_there_until_it_has_it() -> None:
    world = await World.build()
    grants = ImageGrants(world.cloud, "http://images", b"secret")
    await request(world, H1)
    assert (await grants.grant(H1, IMAGE, "read")).token
    for host, access in ((H2, "read"), (H1, "write")):
        with pytest.raises(Refused, match="no open operation"):
            await grants.grant(host, IMAGE, access)  # type: ignore[arg-type]
    await look(world)
    with pytest.raises(Refused, match="no open operation"):
        await grants.grant(H1, IMAGE, "read")
