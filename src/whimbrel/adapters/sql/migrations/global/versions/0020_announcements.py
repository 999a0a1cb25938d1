"""What is to be announced of runs and requests, and which process announces."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("runs", sa.Column("entries", sa.Integer(), nullable=True))
    op.add_column("runs", sa.Column("announced", sa.Integer(), nullable=False, server_default="0"))
    where = sa.text("announced < entries")
    op.create_index("runs_to_announce", "runs", ["subject"], sqlite_where=where, postgresql_where=where)
    op.add_column("actions", sa.Column("to_announce", sa.Boolean(), nullable=False, server_default=sa.false()))
    where = sa.text("to_announce")
    op.create_index("actions_to_announce", "actions", ["server_id"], sqlite_where=where, postgresql_where=where)
    op.create_table(
        "announcing",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("owner", sa.String(255)),
        sa.Column("until", sa.Double(), nullable=False, server_default="0"),
        sa.Column("sent", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("dropped", sa.BigInteger(), nullable=False, server_default="0"),
        sa.CheckConstraint("id = 1", name="announcing_one_row"),
    )
