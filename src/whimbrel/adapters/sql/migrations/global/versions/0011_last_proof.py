"""What the last proof came to is told by every process, also after it was started again."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "last_proof",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("violations", sa.Integer(), nullable=False),
        sa.Column("unseen", sa.Integer(), nullable=False),
        sa.CheckConstraint("id = 1", name="last_proof_one_row"),
        sa.PrimaryKeyConstraint("id"),
    )
