"""Processor time of the whole control plane for one boot, from POST /servers until ACTIVE, 1 and 32 at once.

A process that sleeps between two requests finds its caches cold: a request costs it several times as much then.
"""

import asyncio

from cloud import Cloud, User, in_turns
from figures import report

COUNT = 256


async def boot(user: User, name: str) -> None:
    await user.until(await user.boot(name), "ACTIVE")


async def main(cloud: Cloud) -> None:
    user = await cloud.user()
    await user.boot_many(20)
    for at_once in (1, 32):
        before = cloud.processor_s()
        await in_turns([boot(user, f"b{at_once}-{number}") for number in range(COUNT)], at_once)
        used = (cloud.processor_s() - before) / COUNT
        report(f"boot, {at_once} at once", processor_ms=used * 1000, goal_ms=10, servers=COUNT)


with Cloud() as cloud:
    asyncio.run(main(cloud))
