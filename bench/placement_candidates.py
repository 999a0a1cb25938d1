"""GET /allocation_candidates: processor time of one request, by number of hosts; start and memory of the server too."""

from itertools import product

from cyclopts import run
from placement_server import Placement, started
from placement_sheet import Chosen, Lines, Sheet, Sizes, each

FLAT = ("plain", "traits and aggregate")
NESTED = ("plain", "granular", "isolate and same_subtree")
LOADS = ((10, 1, 1000), (10, 8, 1000), (1000, 1, 60))  # limit, clients, requests
GOALS_MS = {  # (kind, query, limit, hosts)
    ("flat", "plain", 10, 1_000): 1,
    ("flat", "plain", 10, 10_000): 2,
    ("flat", "plain", 10, 100_000): 15,
    ("flat", "plain", 1000, 10_000): 12,
    ("flat", "traits and aggregate", 10, 10_000): 2,
    ("nested", "isolate and same_subtree", 10, 10_000): 4,
}


def main(*hosts: Sizes, db: Chosen = None, json: Lines = False) -> None:
    """Measure searches for candidates."""
    for database, numbers in each(hosts, db):
        for number, (kind, queries) in product(numbers, (("flat", FLAT), ("nested", NESTED))):
            sheet = Sheet(database, number, kind, json)
            with started(database, number, nested=kind == "nested") as placement:
                for query, (limit, clients, count) in product(queries, LOADS):
                    figures = placement.load(query, count, clients=clients, seed=clients, limit=limit)
                    sheet.add(f"{query}, limit={limit}", figures, GOALS_MS.get((kind, query, limit, number)))
                _note_start(sheet, placement)
            sheet.show()


def _note_start(sheet: Sheet, placement: Placement) -> None:
    start, memory_mib = placement.start, placement.memory_mib()
    said = (
        f"Ready after {start['ready_s']:.2f} s, first candidate after {start['loaded_s']:.2f} s, until then"
        f" {start['server_ms']:.0f} + {start['database_ms']:.0f} ms of processor time;"
        f" memory {start['memory_mib']:.0f} MiB then, {memory_mib:.0f} MiB in the end."
    )
    sheet.note("start", said, **start, memory_in_the_end_mib=memory_mib)


run(main)
