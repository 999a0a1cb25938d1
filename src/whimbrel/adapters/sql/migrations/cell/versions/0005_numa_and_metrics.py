"""What hosts tell of their NUMA nodes, and of their load."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("hosts", sa.Column("numa", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("hosts", sa.Column("metrics", sa.Text(), nullable=False, server_default="{}"))
