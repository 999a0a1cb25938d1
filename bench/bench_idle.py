"""A cloud in which nothing happens, of 10,000 servers on 1,000 simulated hosts: how much of a core it uses."""

import asyncio
import sqlite3
import sys
import time
from contextlib import closing

from cloud import Cloud
from figures import report
from many_servers import fill, make_one

SERVERS, HOSTS, SECONDS = (int(word) for word in (sys.argv[1:] or ("10000", "1000", "60")))
GOAL = 0.02
SETTLES_S = 5.0
"""How long a start may still be under way after the cloud answers."""


async def make(cloud: Cloud) -> None:
    like = await make_one(await cloud.user())
    cloud.stop()
    fill(cloud.databases, like, SERVERS)
    # The servers are old: the effects of their creation have been checked.
    with closing(sqlite3.connect(cloud.databases / "global.sqlite")) as connection:
        connection.execute("UPDATE runs SET updated_at = updated_at - 86400")
        connection.commit()


if __name__ == "__main__":
    with Cloud(host_count=HOSTS) as cloud:
        asyncio.run(make(cloud))
        cloud.start()
        time.sleep(SETTLES_S)
        before, began = cloud.processor_s(), time.monotonic()
        time.sleep(SECONDS)
        share = (cloud.processor_s() - before) / (time.monotonic() - began)
        report(f"idle, {SERVERS} servers on {HOSTS} hosts", of_a_core=share, goal=GOAL, start_processor_s=before)
