"""GET /allocation_candidates: processor time of one request, with 100 to 100,000 hosts, flat and nested.

Hosts as numbers may follow; without any: 100 1000 10000. `all` adds 100000.
"""

import sys
import time

from cloud import report
from placement_hosts import GRANULAR, ISOLATED, PICKY, PLAIN, Placement

FLAT = {"plain": PLAIN, "traits and aggregate": PICKY}
NESTED = {"nested plain": PLAIN, "nested granular": GRANULAR, "nested isolate, same_subtree": ISOLATED}
GOALS = {  # (query, limit, hosts) -> processor milliseconds
    ("plain", 10, 1_000): 1,
    ("plain", 10, 10_000): 2,
    ("plain", 10, 100_000): 15,
    ("plain", 1000, 10_000): 12,
    ("traits and aggregate", 10, 10_000): 2,
    ("nested isolate, same_subtree", 10, 10_000): 4,
}
SECONDS = 2.0


def measure(placement: Placement, name: str, query: str, limit: int, hosts: int) -> None:
    path = f"/allocation_candidates?{query}&limit={limit}"
    found = len(placement.ask(path).json()["allocation_requests"])
    before, began, count = placement.processor_s(), time.monotonic(), 0
    while time.monotonic() < began + SECONDS:
        placement.ask(path)
        count += 1
    used, took = placement.processor_s() - before, time.monotonic() - began
    goal = {"goal_ms": GOALS[name, limit, hosts]} if (name, limit, hosts) in GOALS else {}
    figures = {"processor_ms": used / count * 1000, "wall_ms": took / count * 1000, "found": found}
    report(f"candidates, {name}, limit={limit}", hosts=hosts, **figures, **goal)


def main(sizes: list[int]) -> None:
    for hosts in sizes:
        for nested, queries in ((False, FLAT), (True, NESTED)):
            with Placement(hosts, nested=nested) as placement:
                before, began = placement.processor_s(), time.monotonic()
                placement.ask(f"/allocation_candidates?{PLAIN}&limit=1")
                took = {"processor_s": placement.processor_s() - before, "wall_s": time.monotonic() - began}
                report("index loaded" + " nested" * nested, hosts=hosts, memory_mib=placement.memory_mib(), **took)
                for name, query in queries.items():
                    for limit in (10, 1000):
                        measure(placement, name, query, limit, hosts)


asked = [word for word in sys.argv[1:] if word != "all"]
main([int(word) for word in asked] or [100, 1_000, 10_000, *[100_000] * ("all" in sys.argv)])
