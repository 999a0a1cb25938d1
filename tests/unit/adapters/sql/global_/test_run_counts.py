"""Counting runs stays cheap: no statement goes through the rows of runs that are over."""

import pytest
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.fixed import text_of
from whimbrel.adapters.sql.global_ import run_counts
from whimbrel.adapters.sql.tables.global_ import metadata

STATEMENTS = {
    "open": (run_counts._OPEN, {}),
    "parked": (run_counts._PARKED, {}),
    "owed": (run_counts._OWED, {"b_none": b"[]"}),
    "ended": (run_counts._ENDED, {"b_after": 1.0, "b_until": 2.0}),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_count_reads_an_index_that_leaves_out_what_is_over(name: str) -> None:
    statement, values = STATEMENTS[name]
    engine = sa.create_engine("sqlite://", paramstyle="named")  # as stores have it: texts are kept for all of them
    metadata.create_all(engine)
    text = text_of(engine.dialect, statement, values)
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver
        rows = driver.execute(f"EXPLAIN QUERY PLAN {text.sql}", text.bound(values)).fetchall()
    first = str(rows[0][3])
    partial = {"open": "runs_due", "parked": "one_parked_run", "owed": "runs_due"}
    assert (f"INDEX {partial[name]}" if name in partial else "COVERING INDEX runs_ended") in first, rows
