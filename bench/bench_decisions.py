"""Choosing a host for one server: processor time of a whole decision, its reasons and its record included.

All filters and weighers are on, and two zones; the hosts are in a database, as they are of a cloud. Nothing is claimed.
"""

import asyncio
import sys
import tempfile
import time
from types import SimpleNamespace
from typing import Any, cast

import sqlalchemy as sa
from figures import report
from placement_databases import sqlite
from placement_hosts import AGGREGATES, GOLD, host_id, is_gold

from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.cell.hosts import SqlHosts
from whimbrel.adapters.sql.cell.pci_devices import SqlDevices
from whimbrel.adapters.sql.cell.servers import SqlServers
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.global_.aggregates import SqlAggregates
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.tables import cell as cell_tables
from whimbrel.adapters.sql.tables import global_ as global_tables
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, HostName, ProjectId, UserId
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.needs import Needs
from whimbrel.moves.steps.target import decide
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.meter import Meter
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.placement.placement import Owner
from whimbrel.scheduling.decision import to_bytes
from whimbrel.scheduling.filters.by_name import FILTERS
from whimbrel.scheduling.fleet import KnownFleet
from whimbrel.scheduling.request import Request

GOALS_MS = {1_000: 1.0, 10_000: 20.0}
ZONES = ("north", "south")
CELL = CellName("cell1")
FLAVOR = Flavor(flavor_id="1", name="small", vcpus=2, memory_mib=4096, root_gib=20)
FACTS = MoveFacts(owner=Owner(ProjectId("p"), UserId("u")), name="s", image_id=None, new_flavor=FLAVOR)


def wanted(number: int) -> Needs:
    """Ask for a host that is gold, in one zone, and not the one that the server is on; amounts vary."""
    own = {"VCPU": 1 + number % 16, "MEMORY_MB": 512 * (1 + number % 32), "DISK_GB": 5 * (1 + number % 16)}
    request = Request(
        resources=ResourceRequest(own=own, root_required=(GOLD,), member_of=(frozenset(AGGREGATES[:2]),)),
        home_cell=CELL,
        cells=frozenset({CELL}),
        zone=ZONES[number % 2],
        excluded=frozenset({HostName("host0")}),
        flavor=FLAVOR,
        spread=str(number),
    )
    return Needs(facts=FACTS, request=request)


def fill(url: str, hosts: int) -> None:
    """Write hosts down as the cell knows them: every hundredth is disabled; half of them are in each zone."""
    for schema in ("global", f"cell_{CELL}"):
        prepare(url, schema)
    now = time.time()
    same = {"driver": "simulated", "vcpus": 64, "memory_mib": 262144, "disk_gib": 4000, "seen_at": now + 1e6}
    more = {"created_at": now, "hypervisor_type": "QEMU", "hypervisor_version": 7002000, "cpu_info": "{}"}
    rows = [
        {"name": f"host{n}", "id": host_id(n), "service_id": host_id(n), "enabled": n % 100 != 99, **same, **more,
         "forced_down": False, "host_ip": "127.0.0.1"}
        for n in range(hosts)
    ]  # fmt: skip
    _insert(f"{url}/cell_{CELL}.sqlite", cell_tables.hosts, rows)
    aggregates = [
        {"id": n + 1, "uuid": AGGREGATES[n], "name": zone, "metadata": {"availability_zone": zone}, "created_at": now}
        for n, zone in enumerate(ZONES)
    ]
    members = [{"aggregate_id": 1 + n // 10 % 2, "host": f"host{n}"} for n in range(hosts)]
    _insert(f"{url}/global.sqlite", global_tables.aggregates, aggregates)
    _insert(f"{url}/global.sqlite", global_tables.aggregate_hosts, members)


def _insert(url: str, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as tx:
        tx.execute(sa.insert(table), rows)
    engine.dispose()


def opened(url: str, placement_url: str) -> Cloud:
    """Open as much of a cloud as a decision looks at."""
    store, clock = open_database(url, f"cell_{CELL}"), SystemClock()
    cells = {
        CELL: SimpleNamespace(
            name=CELL, hosts=SqlHosts(store, CELL), servers=SqlServers(store), devices=SqlDevices(store)
        )
    }
    global_ = open_database(url, "global")
    rules = Rules(scheduler=SchedulerRules(enabled_filters=tuple(FILTERS)))
    fleets = KnownFleet(cast(Any, cells), SqlCells(global_), SqlAggregates(global_), clock, rules)
    placement = SqlPlacement(open_database(placement_url, "placement"))
    looked_at = {"fleets": fleets, "placement": placement, "clock": clock, "rules": rules, "meter": Meter()}
    return cast(Cloud, SimpleNamespace(**looked_at))


async def measure(cloud: Cloud, hosts: int, callers: int) -> None:
    decisions = max(40, min(2000, 2_000_000 // hosts))
    size = 0

    async def call(mine: range) -> None:
        nonlocal size
        for number in mine:
            decision = await decide(wanted(number), cloud, 3)
            assert decision.choices, decision.record.summary()
            size = len(to_bytes(decision.record))

    await call(range(4))  # everything is read once
    began, processor = time.perf_counter(), time.process_time()
    await asyncio.gather(*(call(range(start, decisions, callers)) for start in range(callers)))
    used, took = time.process_time() - processor, time.perf_counter() - began
    report(
        f"decision among {hosts} hosts, {callers} callers",
        processor_ms=used / decisions * 1000,
        goal_ms=GOALS_MS.get(hosts),
        decisions_a_second_of_one_core=decisions / used,
        took_ms=took / decisions * 1000,
        record_kib=size / 1024,
    )


async def main(sizes: list[int]) -> None:
    for hosts in sizes:
        assert any(is_gold(number) for number in range(1, hosts))
        with tempfile.TemporaryDirectory(prefix="whimbrel-bench-") as directory, sqlite(hosts, nested=False) as placed:
            url = f"sqlite:///{directory}"
            fill(url, hosts)
            cloud = opened(url, placed.url)
            for callers in (1, 8):
                await measure(cloud, hosts, callers)


asyncio.run(main([int(word) for word in sys.argv[1:]] or [100, 1_000, 10_000, 100_000]))
