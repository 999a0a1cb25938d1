"""Agents on other machines: the session of each host's agent, and what the agent and the host say of themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("hosts", sa.Column("session", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("hosts", sa.Column("agent", sa.Text(), nullable=False, server_default="{}"))
    op.add_column("hosts", sa.Column("description", sa.Text(), nullable=False, server_default="{}"))
