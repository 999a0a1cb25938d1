"""Zones of hosts."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "host_zones",
        sa.Column("root", sa.String(length=36), nullable=False),
        sa.Column("zone", sa.String(length=255), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["root"], ["providers.uuid"], name="host_zones_root_is_there"),
        sa.PrimaryKeyConstraint("root"),
    )
