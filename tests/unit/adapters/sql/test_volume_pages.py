"""A page of attachments reads no more rows than are on it: it begins behind the last one, in the order of an index."""

import pytest
import sqlalchemy as sa

from whimbrel.adapters.sql.tables.volumes import metadata
from whimbrel.adapters.sql.volumes.volume_search import page_of_attachments
from whimbrel.ports.embedded.volume_store import AttachmentQuery, AttachmentRecord

LAST = AttachmentRecord(
    id="a1", volume_id="v1", project_id="p1", server_id=None, status="attached", mode=None, created_at=3.0
)  # fmt: skip


@pytest.mark.parametrize("project", [None, "p1"])
def test_a_page_begins_in_the_middle_of_an_index(project: str | None) -> None:
    engine = sa.create_engine("sqlite://")
    metadata.create_all(engine)
    statement = page_of_attachments(AttachmentQuery(project_id=project, after=LAST, limit=500))
    text = statement.compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        plan = [str(row[3]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
    key = "project_id=? AND (created_at,id)>(?,?)" if project else "(created_at,id)>(?,?)"
    assert len(plan) == 1, plan
    assert key in plan[0].replace(") AND (", ","), plan
