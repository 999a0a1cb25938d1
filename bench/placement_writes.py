"""PUT /allocations, and the swap of a move by POST: processor time of one, by 1 and by 8 clients at once."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from cloud import report
from placement_hosts import Placement, host_id

HOSTS = 1_000
WRITES = 400
OWNER = {"project_id": "bench", "user_id": "bench", "consumer_type": "INSTANCE"}
AMOUNTS = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 5}

fresh = count(1)


def claim(host: str, generation: int | None) -> dict[str, Any]:
    return {"allocations": {host: {"resources": AMOUNTS}}, "consumer_generation": generation, **OWNER}


def put(placement: Placement, consumer: str, host: str) -> None:
    placement.send("PUT", f"/allocations/{consumer}", claim(host, None))


def swap(placement: Placement, server: str, source: str, target: str) -> None:
    """Let the move own the source's claim and the server the target's, in one write."""
    move = str(uuid.UUID(int=(4 << 64) + next(fresh)))
    placement.send("POST", "/allocations", {move: claim(source, None), server: claim(target, 1)})


def measure(placement: Placement, name: str, goal_ms: float, clients: int, writes: list[Any]) -> None:
    before, began = placement.processor_s(), time.monotonic()
    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(lambda write: write(), writes))
    used, took = placement.processor_s() - before, time.monotonic() - began
    figures = {"processor_ms": used / len(writes) * 1000, "goal_ms": goal_ms, "a_second": len(writes) / took}
    report(f"{name}, {clients} at once", hosts=HOSTS, **figures)


def main() -> None:
    with Placement(HOSTS, nested=False) as placement:
        for clients in (1, 8):
            servers = [str(uuid.UUID(int=(3 << 64) + next(fresh))) for _ in range(WRITES)]
            homes = [(host_id(2 * n % HOSTS), host_id((2 * n + 1) % HOSTS)) for n in range(WRITES)]
            pairs = list(zip(servers, homes, strict=True))
            puts = [lambda s=server, h=home: put(placement, s, h[0]) for server, home in pairs]
            measure(placement, "PUT /allocations", 3, clients, puts)
            swaps = [lambda s=server, h=home: swap(placement, s, *h) for server, home in pairs]
            measure(placement, "swap by POST /allocations", 4, clients, swaps)


main()
