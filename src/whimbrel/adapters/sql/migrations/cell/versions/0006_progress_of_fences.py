"""Fences also keep how many steps of a run were known, so that orders of a restored journal are recognised."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("fences", sa.Column("progress", sa.Integer(), server_default="0", nullable=False))
