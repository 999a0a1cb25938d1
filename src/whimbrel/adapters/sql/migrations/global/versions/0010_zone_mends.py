"""Changes of zones that are overtaken by who puts right what placement knows of them."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "zone_mends",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.CheckConstraint("id = 1", name="zone_mends_one_row"),
        sa.PrimaryKeyConstraint("id"),
    )
