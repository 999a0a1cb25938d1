"""The cloud knows its incarnation, and whether all runs are held because a database was restored."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "cloud",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incarnation", sa.Integer(), server_default="1", nullable=False),
        sa.Column("held_at", sa.Double(), nullable=True),
        sa.Column("held_because", sa.Text(), nullable=True),
        sa.Column("restoring", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint("id = 1", name="cloud_one_row"),
        sa.PrimaryKeyConstraint("id"),
    )
