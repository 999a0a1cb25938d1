"""Held images."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("images", sa.Column("held", sa.String(length=16), nullable=True))
