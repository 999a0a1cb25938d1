"""Which traits hosts offer by themselves. Those that are there stay: who set them was not written down."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("provider_traits", sa.Column("offered", sa.Boolean(), server_default=sa.false(), nullable=False))
