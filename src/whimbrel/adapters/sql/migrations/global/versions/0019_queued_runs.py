"""Runs that wait for their turn behind another run of their subject."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

permits_more = ("one_open_run",)
"""Older programs queue no runs: to what they write it applies as before."""


def upgrade() -> None:
    op.add_column("runs", sa.Column("queued", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.drop_index("one_open_run", table_name="runs")
    where = sa.text("state = 'open' AND NOT queued")
    op.create_index("one_open_run", "runs", ["subject"], unique=True, sqlite_where=where, postgresql_where=where)
