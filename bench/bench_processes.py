"""Resize + confirm in a cloud of many processes on PostgreSQL and NATS, with 1, 2 and 4 conductors, 32 at once.

bench_processes.py [COMMIT]: with a commit, its cloud in one process on PostgreSQL is measured before and after, and the
ratio is printed. What PostgreSQL and NATS take themselves is beside it, and in no ratio.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean

from against import checked_out
from bench_resize import resize_and_confirm
from cloud import Cloud, User, in_turns
from figures import report
from many_processes import ManyProcesses, OwnDatabase, missing

HOSTS, SERVERS, AT_ONCE, EACH = 6, 64, 32, 12
CONDUCTORS = (1, 2, 4)
OURS, OTHERS = ("api", "conductor", "agent", "image"), ("postgres", "nats")


async def prepare(user: User) -> list[str]:
    for name, flavor, ram in (("small", "b1", 512), ("large", "b2", 1024)):
        body = {"id": flavor, "name": f"bench.{name}", "vcpus": 1, "ram": ram, "disk": 1}
        await user.call("POST", "/flavors", {"flavor": body})
    return await user.boot_many(SERVERS)


async def move_all(user: User, servers: list[str]) -> int:
    """Resize and confirm, so many at once; return how many."""

    async def work(server: str) -> None:
        for number in range(EACH):
            await resize_and_confirm(user, server, f"b{1 + number % 2}")

    await in_turns([work(server) for server in servers[:AT_ONCE]], AT_ONCE)
    return AT_ONCE * EACH


async def many(cloud: ManyProcesses) -> float:
    """Return the processor milliseconds of one move, the mean of all numbers of conductors."""
    user = await cloud.user()
    servers = await prepare(user)
    found = []
    for conductors in CONDUCTORS:
        while len(cloud.started("conductor")) < conductors:
            cloud.add_conductor()
        await move_all(user, servers)  # each process has its connections and statements then
        before = {kind: cloud.processor_s(kind) for kind in (*OURS, *OTHERS)}
        moves = await move_all(user, servers)
        used = {kind: (cloud.processor_s(kind) - before[kind]) / moves * 1000 for kind in before}
        found.append(sum(used[kind] for kind in OURS))
        parts = {f"{kind}_ms": milliseconds for kind, milliseconds in used.items()}
        report(f"resize and confirm, {conductors} conductors over NATS", processor_ms=found[-1], **parts)
    report("resize and confirm, most conductors over one", ratio=found[-1] / found[0])
    return mean(found)


async def one(cloud: Cloud, database: OwnDatabase) -> None:
    user = await cloud.user()
    servers = await prepare(user)
    await move_all(user, servers)
    before, before_beside = cloud.processor_s(), database.processor_s()
    moves = await move_all(user, servers)
    used, beside = cloud.processor_s() - before, database.processor_s() - before_beside
    report(
        "resize and confirm, one process on PostgreSQL",
        processor_ms=used / moves * 1000,
        postgres_ms=beside / moves * 1000,
    )


def of_other(sources: Path) -> float:
    """Return the processor milliseconds of one move in one process of other sources."""
    environment = {**os.environ, "PYTHONPATH": str(sources / "src")}
    done = subprocess.run([sys.executable, __file__, "--one"], env=environment, stdout=subprocess.PIPE, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    print(done.stdout.decode(), end="", flush=True)
    return next(float(line["processor_ms"]) for line in lines if "processor_ms" in line)


def main(words: list[str]) -> None:
    if why := missing():
        report("many processes: not measured", because=why)
        return
    server = os.environ["WHIMBREL_TEST_POSTGRES"]
    if words == ["--one"]:
        with OwnDatabase(server) as database, Cloud(database=database.url, host_count=HOSTS) as cloud:
            asyncio.run(one(cloud, database))
        return
    with tempfile.TemporaryDirectory(prefix="whimbrel-against-") as directory:
        sources = checked_out(words[0], Path(directory)) if words else None
        before = [of_other(sources)] if sources else []
        with OwnDatabase(server) as database, ManyProcesses(database, HOSTS) as cloud:
            now = asyncio.run(many(cloud))
        if sources:
            then = mean([*before, of_other(sources)])
            report(f"resize and confirm over NATS: this over one process of {words[0]}", ratio=now / then)


if __name__ == "__main__":
    main(sys.argv[1:])
