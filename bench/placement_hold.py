"""How long a search for all candidates keeps a process from everything else, and how much memory it takes."""

import asyncio
import os
import time

import httpx
from cyclopts import run
from figures import memory_mib, peak_memory_mib, report
from placement_databases import sqlite

from whimbrel.adapters.clock import RandomIds, SystemClock
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.placement_api.app import MOST_CANDIDATES, placement_app

HEADERS = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}
ALL = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:512,DISK_GB:5"


def main(hosts: int = 100_000, cap: int = MOST_CANDIDATES) -> None:
    """Measure one request without a limit. cap: candidates in an answer at most, -1: all."""
    with sqlite(hosts, nested=False) as database:
        asyncio.run(_measure(database.url, hosts, cap))


async def _measure(url: str, hosts: int, cap: int) -> None:
    database = open_database(url, "placement")
    app = placement_app(
        SqlPlacement(database), None, SystemClock(), RandomIds(), most_candidates=None if cap == -1 else cap
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here", headers=HEADERS) as client:
        await client.get(f"{ALL}&limit=1")  # loads the index
        before_mib, began = memory_mib(os.getpid()), time.process_time()
        answer = asyncio.create_task(client.get(ALL))
        holds = []
        while not answer.done():
            turn = time.process_time()
            await asyncio.sleep(0)
            holds.append(time.process_time() - turn)
        report(
            "placement_hold",
            hosts=hosts,
            cap=cap,
            answer_mb=len((await answer).content) / 1e6,
            processor_s=time.process_time() - began,
            longest_hold_s=max(holds),
            more_memory_mib=peak_memory_mib(os.getpid()) - before_mib,
        )
    await database.close()


run(main)
