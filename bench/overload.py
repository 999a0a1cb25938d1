"""More requests at once than the control plane can do at once: all have to end well, later.

overload.py [HOSTS] [BOOTS] [AT_ONCE] [postgresql]: boot servers on simulated hosts; report how many have which status.
"""

import asyncio
import sys
import time
from collections import Counter
from contextlib import nullcontext

from cloud import Cloud, User, in_turns
from figures import report
from placement_databases import empty_postgresql

HOSTS, BOOTS, AT_ONCE = 1000, 400, 32
LOOK_EACH_S = 1.0


async def main(cloud: Cloud, hosts: int, boots: int, at_once: int) -> None:
    user = await cloud.user()
    before, began = cloud.processor_s(), time.monotonic()
    await in_turns([user.boot(f"s{number}") for number in range(boots)], at_once)
    accepted_s = time.monotonic() - began
    statuses = await ended(user, boots)
    took = time.monotonic() - began
    used = cloud.processor_s() - before
    name = f"{boots} boots on {hosts} hosts, {at_once} at once"
    for why, count in (await faults(user)).most_common(3):
        print(f"{count}: {why}", file=sys.stderr, flush=True)
    report(name, accepted_s=accepted_s, ended_s=took, processor_ms=used / boots * 1000, **statuses)


async def faults(user: User) -> Counter[str]:
    """Count why servers are in error."""
    servers = (await user.call("GET", "/servers/detail?status=ERROR&limit=1000"))["servers"]
    return Counter(str(server.get("fault", {}).get("message")) for server in servers)


async def ended(user: User, boots: int) -> Counter[str]:
    """Wait until no server is being built; count the servers by status."""
    while True:
        servers = (await user.call("GET", f"/servers/detail?limit={boots}"))["servers"]
        statuses = Counter(server["status"] for server in servers)
        if not statuses["BUILD"]:
            return Counter({status: count for status, count in statuses.items() if count})
        print(dict(statuses), file=sys.stderr, flush=True)
        await asyncio.sleep(LOOK_EACH_S)


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    hosts, boots, at_once = [*numbers, *(HOSTS, BOOTS, AT_ONCE)[len(numbers) :]]
    place = empty_postgresql() if "postgresql" in sys.argv else nullcontext()
    with place as database, Cloud(host_count=hosts, database=database.url if database else "") as cloud:
        report("start", processor_s=cloud.processor_s())
        asyncio.run(main(cloud, hosts, boots, at_once))
