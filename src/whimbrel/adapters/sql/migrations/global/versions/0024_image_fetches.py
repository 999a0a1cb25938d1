"""Images that hosts fetch ahead of their first use."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.create_table(
        "image_fetches",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("cell", sa.String(length=255), nullable=False),
        sa.Column("requested_at", sa.Double(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("host", "image_id"),
    )
    op.create_index(op.f("ix_image_fetches_due_at"), "image_fetches", ["due_at"], unique=False)
