"""One run beside a parked one."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.drop_index("one_open_run", table_name="runs")
    for name, state in (("one_open_run", "open"), ("one_parked_run", "parked")):
        where = sa.text(f"state = '{state}'")
        op.create_index(name, "runs", ["subject"], unique=True, sqlite_where=where, postgresql_where=where)
