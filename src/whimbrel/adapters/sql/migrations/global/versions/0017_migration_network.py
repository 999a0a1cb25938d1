"""The network on which a cell migrates live."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("cells", sa.Column("migration_network", sa.String(length=255), nullable=True))
