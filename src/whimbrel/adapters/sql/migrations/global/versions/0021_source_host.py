"""The source host of a move, by which the evacuations of a host are found."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("runs", sa.Column("source_host", sa.String(length=255), nullable=True))
    op.create_index("runs_by_source", "runs", ["saga", "source_host"])
