"""A proof of a cloud of 10,000 servers with a port and a volume each on 1,000 simulated hosts: how long it takes,
and how much memory.

The servers are written straight into the databases while the cloud is down: all are like one that the cloud made.
"""

import asyncio
import sys
import time

from cloud import Cloud
from figures import peak_memory_mib, report
from many_servers import fill, make_one

SERVERS, HOSTS = (int(word) for word in (sys.argv[1:3] or ("10000", "1000")))
GOAL_S, GOAL_MIB = 10.0, 300.0


async def main() -> None:
    with Cloud(host_count=HOSTS) as cloud:
        like = await make_one(await cloud.user())
        cloud.stop()
        fill(cloud.databases, like, SERVERS)
        cloud.start()
        user = await cloud.user()
        before_mib = cloud.memory_mib()
        began, processor_s = time.monotonic(), cloud.processor_s()
        proof = (await user.call("GET", "/whimbrel/proof"))["proof"]
        took_s = time.monotonic() - began
        assert proof["holds"], (proof["violations"][:3], proof["unseen"][:3], len(proof["violations"]))
        assert (proof["servers"], proof["hosts"]) == (SERVERS, HOSTS)
        facts = {law["law"]: law["facts"] for law in proof["laws"]}
        assert (facts["I6"], facts["I7"]) == (SERVERS, SERVERS), "each has a port and a volume"
        report(
            f"proof of {SERVERS} servers on {HOSTS} hosts",
            took_s=took_s,
            goal_s=GOAL_S,
            processor_s=cloud.processor_s() - processor_s,
            process_before_mib=before_mib,
            process_peak_mib=peak_memory_mib(cloud.pid),
            goal_mib=GOAL_MIB,
            facts=sum(facts.values()),
        )


if __name__ == "__main__":
    asyncio.run(main())
