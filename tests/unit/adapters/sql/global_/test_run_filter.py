"""What rounds and requests ask the journal for is found without reading all runs that there ever were."""

import pytest
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.fixed import text_of
from whimbrel.adapters.sql.global_.run_filter import asked
from whimbrel.adapters.sql.tables.global_ import metadata
from whimbrel.domain.ids import HostName
from whimbrel.ports.stores.journal import RunFilter

PLANS = {
    "open": (RunFilter(only_open=True), "runs_open"),
    "open of kinds": (RunFilter(sagas=("resize", "create"), only_open=True, changed_since=1.0), "runs_open"),
    "open of a host": (RunFilter(sagas=("evacuate",), only_open=True, source_host=HostName("h1")), "runs_"),
    "ended": (RunFilter(ended_since=1.0, ended_before=2.0), "runs_ended"),
    "ended of kinds": (RunFilter(sagas=("resize", "create"), ended_since=1.0, ended_before=2.0), "runs_ended"),
}
"""The filter, and the index that the database uses for it."""


@pytest.mark.parametrize("name", PLANS)
def test_a_filter_uses_an_index_that_leaves_out_the_others(name: str) -> None:
    which, index = PLANS[name]
    statement, values = asked(which)
    engine = sa.create_engine("sqlite://", paramstyle="named")  # as stores have it: texts are kept for all of them
    metadata.create_all(engine)
    text = text_of(engine.dialect, statement, values)
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver
        rows = driver.execute(f"EXPLAIN QUERY PLAN {text.sql}", text.bound(values)).fetchall()
    assert f"INDEX {index}" in str(rows[0][3]), rows
