"""Requests that hosts fetch images, as notifications tell of them. An older process notes no outcomes."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.create_table(
        "image_requests",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("aggregate", sa.JSON(), nullable=False),
        sa.Column("hosts", sa.JSON(), nullable=False),
        sa.Column("images", sa.JSON(), nullable=False),
        sa.Column("requested_at", sa.Double(), nullable=False),
        sa.Column("outcomes", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_image_requests_requested_at"), "image_requests", ["requested_at"], unique=False)
