"""Attributes of projects that no other column has. An older process leaves them as they are."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("projects", sa.Column("extra", sa.JSON(), nullable=False, server_default="{}"))
