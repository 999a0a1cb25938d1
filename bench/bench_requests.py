"""Processor time of one request of the compute API: GET of a server, and POST /servers until its 202.

The second is measured in a process that drives no runs: what follows the answer is in bench_boot.py.
"""

import asyncio

from cloud import Cloud, User, in_turns
from figures import report

COUNT, AT_ONCE = 512, 8
SHOW_GOAL_MS, BOOT_GOAL_MS = 1, 3


async def show(cloud: Cloud) -> None:
    user = await cloud.user()
    [server] = await user.boot_many(1)
    await in_turns([user.look(server) for _ in range(COUNT)], AT_ONCE)
    before = cloud.processor_s()
    await in_turns([user.look(server) for _ in range(COUNT)], AT_ONCE)
    _report("GET of a server", cloud.processor_s() - before, SHOW_GOAL_MS)


async def boot(cloud: Cloud) -> None:
    user = await cloud.user()
    await _request(user)
    before = cloud.processor_s()
    await _request(user)
    _report("POST of a server until its 202", cloud.processor_s() - before, BOOT_GOAL_MS)


async def _request(user: User) -> None:
    await in_turns([user.boot(f"s{number}") for number in range(COUNT)], AT_ONCE)


def _report(name: str, used_s: float, goal_ms: float) -> None:
    report(name, processor_ms=used_s / COUNT * 1000, goal_ms=goal_ms, requests=COUNT)


with Cloud() as cloud:
    asyncio.run(show(cloud))
with Cloud(words=("--no-conductor",)) as cloud:
    asyncio.run(boot(cloud))
