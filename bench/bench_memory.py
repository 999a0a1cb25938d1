"""Memory of the process with 1,000 servers, after it has listed all of them with details."""

import asyncio

from cloud import Cloud
from figures import report

COUNT = 1000


async def main(cloud: Cloud) -> None:
    user = await cloud.user()
    await user.boot_many(COUNT)
    await user.call("GET", "/servers/detail?limit=1000")
    report("memory with 1000 servers", resident_mib=cloud.memory_mib(), goal_mib=200, servers=COUNT)


with Cloud() as cloud:
    asyncio.run(main(cloud))
