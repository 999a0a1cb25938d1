"""What was found on hosts: their NICs and PCI devices."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("hosts", sa.Column("hardware", sa.Text(), server_default="", nullable=False))
