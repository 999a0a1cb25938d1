"""Server groups."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "server_groups",
        sa.Column("number", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("policy", sa.String(length=32), nullable=False),
        sa.Column("max_server_per_host", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "policy IN ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')",
            name="server_groups_policy",
        ),
        sa.CheckConstraint(
            "max_server_per_host IS NULL OR (max_server_per_host >= 1 AND policy = 'anti-affinity')",
            name="server_groups_rules",
        ),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("server_groups_by_project", "server_groups", ["project_id", "user_id"], unique=False)
    op.create_table(
        "server_group_members",
        sa.Column("number", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["server_groups.id"], name="server_group_members_group", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("server_id"),
    )
    op.create_index(op.f("ix_server_group_members_group_id"), "server_group_members", ["group_id"], unique=False)
