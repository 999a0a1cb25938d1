"""Servers that change their cell."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("directory", sa.Column("switch_number", sa.Integer(), nullable=True))
    op.create_index(
        "directory_switches",
        "directory",
        ["switch_number"],
        sqlite_where=sa.text("switch_number IS NOT NULL"),
        postgresql_where=sa.text("switch_number IS NOT NULL"),
    )
    op.create_table(
        "switches",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.CheckConstraint("id = 1", name="switches_one_row"),
        sa.PrimaryKeyConstraint("id"),
    )
