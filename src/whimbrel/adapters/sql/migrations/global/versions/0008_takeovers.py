"""Take-overs of runs are written down, and runs that ended are found by when."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "takeovers",
        sa.Column("number", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("run", sa.String(length=36), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("was", sa.String(length=255), nullable=False),
        sa.Column("by", sa.String(length=255), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("takeovers_by_run", "takeovers", ["run"])
    op.create_index(
        "runs_ended",
        "runs",
        ["finished_at", "saga", "turned", "state"],
        sqlite_where=sa.text("finished_at IS NOT NULL"),
        postgresql_where=sa.text("finished_at IS NOT NULL"),
    )
