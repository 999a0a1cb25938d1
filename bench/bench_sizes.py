"""What a move, a boot and a GET cost on 1,000 hosts with 10,000 servers, over what they cost on 20 hosts with 200."""

import asyncio
from collections.abc import Coroutine
from statistics import mean
from typing import Any

from bench_resize import resize_and_confirm
from cloud import Cloud, User, in_turns
from figures import report
from many_servers import fill, make_one

SMALL, LARGE = (20, 200), (1000, 10_000)
"""(simulated hosts, servers) of each cloud."""

MOVED, MOVES, BOOTED, SHOWN, AT_ONCE = 64, 8, 512, 512, 32
GOAL_RATIO = 1.15


def make(hosts: int, servers: int) -> dict[str, float]:
    """Return the processor milliseconds of each kind of request."""
    with Cloud(host_count=hosts) as cloud:
        like = asyncio.run(one(cloud))
        cloud.stop()
        fill(cloud.databases, like, servers)
        cloud.start()
        return asyncio.run(measure(cloud))


async def one(cloud: Cloud) -> Any:
    return await make_one(await cloud.user())


async def measure(cloud: Cloud) -> dict[str, float]:
    user = await cloud.user()
    for name, flavor, ram in (("small", "b1", 512), ("large", "b2", 1024)):
        body = {"id": flavor, "name": f"bench.{name}", "vcpus": 1, "ram": ram, "disk": 1}
        await user.call("POST", "/flavors", {"flavor": body})
    found = {}

    async def take(name: str, count: int, calls: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        before = cloud.processor_s()
        results = await in_turns(calls, AT_ONCE)
        found[name] = (cloud.processor_s() - before) / count * 1000
        return results

    servers = await take("boot", MOVED, [boot(user) for _ in range(MOVED)])  # the first ones fill caches
    await take("boot", BOOTED, [boot(user) for _ in range(BOOTED)])
    await take("resize and confirm", MOVED * MOVES, [move(user, server) for server in servers])
    await take("GET of a server", SHOWN, [user.look(servers[0]) for _ in range(SHOWN)])
    return found


async def boot(user: User) -> str:
    server = await user.boot("s")
    await user.until(server, "ACTIVE")
    return server


async def move(user: User, server: str) -> None:
    for number in range(MOVES):
        await resize_and_confirm(user, server, f"b{2 - number % 2}")


if __name__ == "__main__":
    first, large, last = make(*SMALL), make(*LARGE), make(*SMALL)  # in turns: the machine's speed varies
    for name, milliseconds in large.items():
        report(
            f"{name}, {LARGE[0]} hosts and {LARGE[1]} servers over {SMALL[0]} and {SMALL[1]}",
            processor_ms=milliseconds,
            ratio=milliseconds / mean([first[name], last[name]]),
            goal_ratio=GOAL_RATIO,
        )
