"""What it costs a request to learn that nothing was changed, or what was, in PostgreSQL databases with a past."""

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from cyclopts import run
from figures import report
from placement_databases import POSTGRES, postgres_problem, postgresql
from placement_hosts import host_id

from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.domain.ids import ProviderId

ADD = """
INSERT INTO changes (provider, xid)
SELECT (SELECT min(uuid) FROM providers), pg_current_xact_id()::text::bigint FROM generate_series(1, %s)
"""
AS_RESTORED = "UPDATE changes SET xid = xid + 1000000000"
"""What a dump holds of a cluster that has done a thousand million transactions more."""

READS = 50


def main(hosts: int = 3000, number: int = 100_000) -> None:
    """Measure reads of the index of so many hosts, where so many changes are kept."""
    if problem := postgres_problem():
        report("placement_feed", skipped=problem)
        return
    with (
        postgresql(hosts, nested=False) as database,
        psycopg.connect(database.url, autocommit=True, options="-csearch_path=placement") as own,
    ):
        own.execute(ADD, [number])
        _measure("nothing open", database.url)
        with _open_elsewhere():
            _measure("a write transaction is open in another database", database.url, own, number)
            for _ in range(1000):
                with own.transaction(force_rollback=True):
                    own.execute(ADD, [1])
                own.execute(ADD, [1])
            _measure("and 1,000 writes were rolled back", database.url)
        own.execute(AS_RESTORED)
        _measure("restored into a younger cluster", database.url)


@contextmanager
def _open_elsewhere() -> Iterator[None]:
    with psycopg.connect(POSTGRES) as other:
        other.execute("SELECT pg_current_xact_id()")
        yield


def _measure(case: str, url: str, own: "psycopg.Connection[object] | None" = None, number: int = 0) -> None:
    """Measure with a new index, to which so many changes become known after it was loaded."""

    async def measure() -> None:
        database = open_database(url, "placement")
        store = SqlPlacement(database)
        began = time.perf_counter()
        index = await store.provider_index()
        loaded_s = time.perf_counter() - began
        if own:
            own.execute(ADD, [number])
            assert await store.provider_index() is index, "one provider was changed: nothing has to be loaded anew"
        unchanged = [await _read_ms(store) for _ in range(READS)]
        changed = []
        for turn in range(READS):
            await store.rename_provider(ProviderId(host_id(0)), f"name {case} {turn}")
            changed.append(await _read_ms(store))
        await database.close()
        report(
            "placement_feed",
            case=case,
            hosts=len(index.nodes),
            load_s=loaded_s,
            unchanged_ms=statistics.median(unchanged),
            changed_ms=statistics.median(changed),
        )

    asyncio.run(measure())


async def _read_ms(store: SqlPlacement) -> float:
    began = time.perf_counter()
    await store.provider_index()
    return (time.perf_counter() - began) * 1000


run(main)
