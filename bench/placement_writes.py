"""PUT /allocations and the swap of a move by POST: processor time of one; and a race of many for one provider."""

from itertools import product

from cyclopts import run
from placement_hosts import host_id
from placement_server import Placement, started
from placement_sheet import Chosen, Lines, Sheet, Sizes, each

WRITES = 1000
GOALS_MS = {"put": 3, "swap": 4}
NAMES = {"put": "PUT /allocations", "swap": "swap by POST /allocations"}
RACERS = 8
RACE_HOSTS = 100
DEMAND = 1.6
"""So many times what the provider has is wanted in a race."""


def main(*hosts: Sizes, db: Chosen = None, json: Lines = False) -> None:
    """Measure writes."""
    for database, numbers in each(hosts, db):
        for number in numbers:
            sheet = Sheet(database, number, "flat", json)
            with started(database, number) as placement:
                for clients, (request, goal_ms) in product((1, 8), GOALS_MS.items()):
                    sheet.add(NAMES[request], placement.load(request, WRITES, clients=clients, seed=clients), goal_ms)
            sheet.show()
        sheet = Sheet(database, RACE_HOSTS, f"{RACERS} clients race for one", json)
        for processes in (1, 8):
            with started(database, RACE_HOSTS, processes=processes) as placement:
                _race(sheet, placement, processes)
        sheet.show()


def _race(sheet: Sheet, placement: Placement, processes: int) -> None:
    """Let clients race for the whole capacity of one provider, each at its own process if there are enough."""
    provider = f"/resource_providers/{host_id(0)}"
    stock = placement.ask(f"{provider}/inventories/VCPU")
    capacity = int(stock["total"] * stock["allocation_ratio"])
    figures = placement.load("race", int(capacity * DEMAND), clients=RACERS)
    sheet.add(f"PUT /allocations to one provider, {_said(processes)}", figures)
    statuses = figures["statuses"]
    succeeded, retried = statuses["204"], statuses.get("409 placement.concurrent_update", 0)
    used = placement.ask(f"{provider}/usages")["usages"]["VCPU"]
    holders = len(placement.ask(f"{provider}/allocations")["allocations"])
    outcome = "not over-allocated" if used <= capacity else "OVER-ALLOCATED"
    said = f"Race, {_said(processes)}: {succeeded}/{capacity} succeeded, {outcome}, {retried} were told to try again."
    counted = {"succeeded": succeeded, "capacity": capacity, "used": used, "retries": retried}
    sheet.note("race", said, processes=processes, **counted)
    if not used == holders == succeeded == capacity:
        raise RuntimeError(f"{capacity=} {used=} {holders=} {succeeded=}")


def _said(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"


run(main)
