"""The project of each server of a maintenance, for the budget of moves of one project."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("maintenance_items", sa.Column("project_id", sa.String(length=255), nullable=True))
