"""Resize + confirm to another cell, next to one inside a cell."""

import asyncio

from bench_resize import resize_and_confirm
from cloud import Cloud, User, in_turns
from figures import report

SERVERS, EACH, GOAL = 16, 8, 1.5


async def main(near: Cloud, far: Cloud) -> None:
    """far: its moves go to another cell."""
    users = {cloud: await cloud.user() for cloud in (near, far)}
    servers = {cloud: await boot(user) for cloud, user in users.items()}
    used = dict.fromkeys(users, 0.0)
    for number in range(EACH):  # in turns, so that what else the machine does falls on both alike
        for cloud, user in users.items():
            used[cloud] += await measure(cloud, user, servers[cloud], "b2" if number % 2 == 0 else "b1") / EACH
    await see_that_they_cross(users[far])
    moves = SERVERS * EACH
    report("resize and confirm in a cell", processor_ms=used[near], moves=moves)
    report("resize and confirm to another cell", processor_ms=used[far], moves=moves)
    report("the one over the other", ratio=used[far] / used[near], goal_ratio=GOAL)


async def boot(user: User) -> list[str]:
    for name, flavor, ram in (("small", "b1", 512), ("large", "b2", 1024)):
        body = {"id": flavor, "name": f"bench.{name}", "vcpus": 1, "ram": ram, "disk": 1}
        await user.call("POST", "/flavors", {"flavor": body})
    return await user.boot_many(SERVERS)


async def see_that_they_cross(user: User) -> None:
    moves = (await user.call("GET", "/whimbrel/moves?limit=1000"))["moves"]
    assert len(moves) == SERVERS * EACH
    assert all(move["cross_cell"] for move in moves)


async def measure(cloud: Cloud, user: User, servers: list[str], flavor: str) -> float:
    """Return the processor milliseconds of one resize and its confirm, all servers at once."""
    before = cloud.processor_s()
    await in_turns([resize_and_confirm(user, server, flavor) for server in servers], SERVERS)
    return (cloud.processor_s() - before) / SERVERS * 1000


if __name__ == "__main__":
    with Cloud() as near, Cloud(cells=2) as far:
        asyncio.run(main(near, far))
