"""The moves of a maintenance for which another one of its moves waits."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.add_column("maintenance_items", sa.Column("waits_for", sa.LargeBinary(), nullable=True))
