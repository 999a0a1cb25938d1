"""Why each server of a maintenance moves, if its hosts are balanced or packed."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.add_column("maintenance_items", sa.Column("purpose", sa.Text(), nullable=True))
