"""Attributes of users that no other column has. An older process leaves them as they are."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("users", sa.Column("extra", sa.JSON(), nullable=False, server_default="{}"))
