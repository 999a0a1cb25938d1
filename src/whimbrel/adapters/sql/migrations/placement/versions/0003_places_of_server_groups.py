"""Places of server groups."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "claimed_groups",
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("moving_to", sa.String(length=36), nullable=True),
        sa.Column("moving_since", sa.Double(), nullable=True),
        sa.CheckConstraint("(moving_to IS NULL) = (moving_since IS NULL)", name="claimed_groups_moving"),
        sa.PrimaryKeyConstraint("group_id"),
    )
    op.create_table(
        "group_places",
        sa.Column("consumer", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("server", sa.String(length=36), nullable=False),
        sa.Column("root", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("consumer"),
    )
    op.create_index(op.f("ix_group_places_group_id"), "group_places", ["group_id"], unique=False)
