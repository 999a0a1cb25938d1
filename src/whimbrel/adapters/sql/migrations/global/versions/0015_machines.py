"""Agents on other machines: the cloud's id, invitations and keys of hosts, accounts of the bus, what processes know."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "cloud_identity",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cloud_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint("id = 1", name="cloud_identity_one_row"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "host_invitations",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("cell", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("used_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("token_hash"),
    )
    op.create_table(
        "host_keys",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("cell", sa.String(length=255), nullable=False),
        sa.Column("public_key", sa.String(length=64), nullable=False),
        sa.Column("joined_at", sa.Double(), nullable=False),
        sa.Column("retired_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("host"),
        sa.UniqueConstraint("public_key"),
    )
    op.create_table(
        "bus_accounts",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("public_key", sa.String(length=64), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("jwt", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("public_key"),
    )
    op.add_column("processes", sa.Column("knows", sa.Text(), nullable=False, server_default="{}"))
