"""The hosts of each maintenance that is under way: also of those that balance or pack them."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.create_table(
        "maintenance_holds",
        sa.Column("host", sa.String(length=255), primary_key=True),
        sa.Column("maintenance_id", sa.String(length=36), nullable=False),
    )
