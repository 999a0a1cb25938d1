"""Limits of classes of projects. An older process does not know them: there the settings hold."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "volume_class_limits",
        sa.Column("class_name", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=64), nullable=False),
        sa.Column("hard_limit", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("class_name", "resource"),
        sqlite_with_rowid=False,
    )
