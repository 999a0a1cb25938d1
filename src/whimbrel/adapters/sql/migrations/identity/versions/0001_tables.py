"""Tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "domains",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "roles",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.CheckConstraint("name <> '' AND name = lower(name)", name="role_name_in_lower_case"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "projects",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("domain_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.CheckConstraint("name <> ''", name="project_has_name"),
        sa.ForeignKeyConstraint(
            ["domain_id"],
            ["domains.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("domain_id", "name", name="one_project_of_a_name"),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("domain_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("default_project_id", sa.String(length=64), nullable=True),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.CheckConstraint("name <> ''", name="user_has_name"),
        sa.ForeignKeyConstraint(
            ["domain_id"],
            ["domains.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("domain_id", "name", name="one_user_of_a_name"),
    )
    op.create_table(
        "assignments",
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("role_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["role_id"],
            ["roles.id"],
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "project_id", "role_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("assignments_by_project", "assignments", ["project_id"], unique=False)
    op.create_index("assignments_by_role", "assignments", ["role_id"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("user_name", sa.String(length=255), nullable=False),
        sa.Column("user_domain_id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=True),
        sa.Column("project_name", sa.String(length=255), nullable=True),
        sa.Column("project_domain_id", sa.String(length=64), nullable=True),
        sa.Column("roles", sa.Text(), nullable=False),
        sa.Column("methods", sa.Text(), nullable=False),
        sa.Column("audit_ids", sa.Text(), nullable=False),
        sa.Column("issued_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.CheckConstraint("project_id IS NOT NULL OR roles = '[]'", name="no_roles_without_project"),
        sa.CheckConstraint("project_id IS NULL OR roles <> '[]'", name="no_project_without_roles"),
        sa.CheckConstraint("(project_id IS NULL) = (project_name IS NULL)", name="scope_is_whole"),
        sa.CheckConstraint("length(digest) = 32", name="digest_is_sha256"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("digest"),
        sqlite_with_rowid=False,
    )
    op.create_index("tokens_by_expiry", "tokens", ["expires_at"], unique=False)
    op.create_index("tokens_by_project", "tokens", ["project_id"], unique=False)
    op.create_index("tokens_by_user", "tokens", ["user_id", "project_id"], unique=False)
