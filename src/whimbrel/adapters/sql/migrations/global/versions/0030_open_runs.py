"""An index of the runs that are not over: rounds and requests read them among all that there ever were."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    condition = sa.text("finished_at IS NULL")
    op.create_index(
        "runs_open", "runs", ["saga", "subject"], sqlite_where=condition, postgresql_where=condition, unique=False
    )
