"""The default external network. An older process leaves the column as it is."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("networks", sa.Column("is_default", sa.Boolean(), server_default=sa.false(), nullable=False))
