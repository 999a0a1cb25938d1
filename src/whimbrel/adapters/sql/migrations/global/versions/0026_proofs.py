"""The last proofs, for their trend."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.create_table(
        "proofs",
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("violations", sa.Integer(), nullable=False),
        sa.Column("unseen", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("at"),
    )
