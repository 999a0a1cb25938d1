"""Limits of projects on the resources of services."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "registered_limits",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("service_id", sa.String(length=64), nullable=False),
        sa.Column("region_id", sa.String(length=255), nullable=False),
        sa.Column("resource_name", sa.String(length=255), nullable=False),
        sa.Column("default_limit", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("service_id", "region_id", "resource_name", name="one_registered_limit_of_a_resource"),
    )
    op.create_table(
        "limits",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("registered_limit_id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=True),
        sa.Column("domain_id", sa.String(length=64), nullable=True),
        sa.Column("resource_limit", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.CheckConstraint("(project_id IS NULL) <> (domain_id IS NULL)", name="limit_has_one_holder"),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["registered_limit_id"],
            ["registered_limits.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("registered_limit_id", "domain_id", name="one_limit_of_a_domain"),
        sa.UniqueConstraint("registered_limit_id", "project_id", name="one_limit_of_a_project"),
    )
    op.create_index("limits_by_project", "limits", ["project_id"], unique=False)
