"""Processor time of the whole control plane for one boot: POST /servers until ACTIVE, one request to see it."""

import asyncio

from cloud import Cloud, report

COUNT = 200


async def main(cloud: Cloud) -> None:
    user = await cloud.user()
    await user.boot_many(20)
    before = cloud.processor_s()
    for number in range(COUNT):
        await user.until(await user.boot(f"b{number}"), "ACTIVE")
    report("boot", processor_ms=(cloud.processor_s() - before) / COUNT * 1000, goal_ms=10, servers=COUNT)


with Cloud() as cloud:
    asyncio.run(main(cloud))
