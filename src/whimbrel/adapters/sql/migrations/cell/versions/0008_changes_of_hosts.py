"""Changes of hosts and of what is on them, noted by triggers."""

import sqlalchemy as sa
from alembic import op

from whimbrel.adapters.sql.tables.host_triggers import create_triggers

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "host_changes",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("xid", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("host_changes_by_xid", "host_changes", ["xid"], unique=False)
    create_triggers(op.get_bind())
