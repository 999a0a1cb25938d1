"""What runs decided by is kept beside them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "evidence",
        sa.Column("number", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("run", sa.String(length=36), nullable=False),
        sa.Column("step", sa.String(length=64), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("evidence_by_run", "evidence", ["run"])
