"""The processes of a cloud and their leases: one `whimbrel up` at a time."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "processes",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("role", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("lock", sa.String(length=255), nullable=False),
        sa.Column("release", sa.String(length=64), nullable=False),
        sa.Column("is_exclusive", sa.Boolean(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("lease_until", sa.Double(), nullable=False),
        sa.Column("clock_offset_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    where = sa.text("is_exclusive")
    op.create_index(
        "one_process_of_role", "processes", ["role"], unique=True, sqlite_where=where, postgresql_where=where
    )
