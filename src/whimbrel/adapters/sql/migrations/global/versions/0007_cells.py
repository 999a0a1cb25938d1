"""Cells are written down. Those of an older cloud are when it starts, from its settings."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "cells",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("database", sa.Text()),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.Text()),
        sa.Column("physnets", sa.JSON(none_as_null=True)),
        sa.Column("storage", sa.JSON(none_as_null=True)),
        sa.Column("settings", sa.JSON(none_as_null=True)),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sa.CheckConstraint("NOT enabled OR disabled_reason IS NULL", name="cells_enabled_without_reason"),
    )
