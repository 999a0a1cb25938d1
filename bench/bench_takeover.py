"""1,000 open moves after kill -9: seconds from the kill until each is in hand again, and until each has arrived."""

import asyncio
import time
from typing import Any

from cloud import Cloud, User
from figures import report

COUNT = 1000


async def begin(cloud: Cloud) -> None:
    """Create 1,000 moves that are copying their disks."""
    user = await cloud.user()
    await user.call("POST", "/flavors", {"flavor": {"id": "b2", "name": "b2", "vcpus": 1, "ram": 1024, "disk": 1}})
    servers = await user.boot_many(COUNT)
    await asyncio.gather(*(user.act(server, "resize", {"flavorRef": "b2"}) for server in servers))
    while any(move["at"] != "carry_disk" for move in await moves(user)):
        await asyncio.sleep(0.1)


async def moves(user: User) -> list[dict[str, Any]]:
    return list((await user.call("GET", f"/whimbrel/moves?open=true&limit={COUNT}"))["moves"])


async def end(cloud: Cloud, killed: float) -> None:
    user = await cloud.user()
    while any(move["epoch"] < 2 for move in await moves(user)):
        await asyncio.sleep(0.1)
    taken_over = time.monotonic() - killed
    await user.until_all("VERIFY_RESIZE", COUNT)
    arrived = time.monotonic() - killed
    report("take over after kill -9", in_hand_s=taken_over, goal_s=5, arrived_s=arrived, moves=COUNT)


with Cloud(copy_disk_s=3600) as cloud:
    asyncio.run(begin(cloud))
    cloud.set_copy_time(0)
    killed = time.monotonic()
    cloud.kill()
    cloud.start()
    asyncio.run(end(cloud, killed))
