"""Roles in the system, and tokens for it. To an older process such a token has no scope and no roles."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    for table, holder in (("system_assignments", "user"), ("system_group_assignments", "group")):
        op.create_table(
            table,
            sa.Column(f"{holder}_id", sa.String(length=64), nullable=False),
            sa.Column("role_id", sa.String(length=64), nullable=False),
            sa.ForeignKeyConstraint([f"{holder}_id"], [f"{holder}s.id"], ondelete="CASCADE"),
            sa.ForeignKeyConstraint(["role_id"], ["roles.id"]),
            sa.PrimaryKeyConstraint(f"{holder}_id", "role_id"),
            sqlite_with_rowid=False,
        )
        op.create_index(f"{table}_by_role", table, ["role_id"], unique=False)
    op.add_column("tokens", sa.Column("system_scope", sa.String(length=8), nullable=True))
