"""Tables of the embedded identity service.

Invariant: a row of `tokens` repeats what every request needs to know about its owner, so that one look-up by primary
key is enough; the store changes the copy in the transaction that changes the original.
"""

import sqlalchemy as sa

metadata = sa.MetaData()

NAME_CHARS = 255

domains = sa.Table(
    "domains",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(NAME_CHARS), nullable=False, unique=True),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
)

projects = sa.Table(
    "projects",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("domain_id", sa.ForeignKey("domains.id"), nullable=False),
    sa.Column("name", sa.String(NAME_CHARS), nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.UniqueConstraint("domain_id", "name", name="one_project_of_a_name"),
    sa.CheckConstraint("name <> ''", name="project_has_name"),
)

users = sa.Table(
    "users",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("domain_id", sa.ForeignKey("domains.id"), nullable=False),
    sa.Column("name", sa.String(NAME_CHARS), nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("email", sa.Text),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("default_project_id", sa.String(64)),  # a preference: the project may be deleted, as in Keystone
    sa.Column("password_hash", sa.Text),
    sa.UniqueConstraint("domain_id", "name", name="one_user_of_a_name"),
    sa.CheckConstraint("name <> ''", name="user_has_name"),
)

roles = sa.Table(
    "roles",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(NAME_CHARS), nullable=False, unique=True),
    sa.Column("description", sa.Text, nullable=False),
    sa.CheckConstraint("name <> '' AND name = lower(name)", name="role_name_in_lower_case"),
)

assignments = sa.Table(
    "assignments",
    metadata,
    sa.Column("user_id", sa.ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("project_id", sa.ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("role_id", sa.ForeignKey("roles.id"), primary_key=True),
    sa.Index("assignments_by_project", "project_id"),
    sa.Index("assignments_by_role", "role_id"),
    sqlite_with_rowid=False,
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("digest", sa.LargeBinary(32), primary_key=True),  # SHA-256 of the token, which is not stored
    sa.Column("user_id", sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    sa.Column("user_name", sa.String(NAME_CHARS), nullable=False),
    sa.Column("user_domain_id", sa.String(64), nullable=False),
    sa.Column("project_id", sa.ForeignKey("projects.id", ondelete="CASCADE")),
    sa.Column("project_name", sa.String(NAME_CHARS)),
    sa.Column("project_domain_id", sa.String(64)),
    sa.Column("roles", sa.Text, nullable=False),  # JSON list of names, implied ones included
    sa.Column("methods", sa.Text, nullable=False),  # JSON list
    sa.Column("audit_ids", sa.Text, nullable=False),  # JSON list
    sa.Column("issued_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
    sa.CheckConstraint("length(digest) = 32", name="digest_is_sha256"),
    sa.CheckConstraint("(project_id IS NULL) = (project_name IS NULL)", name="scope_is_whole"),
    sa.CheckConstraint("project_id IS NOT NULL OR roles = '[]'", name="no_roles_without_project"),
    sa.CheckConstraint("project_id IS NULL OR roles <> '[]'", name="no_project_without_roles"),
    sa.Index("tokens_by_user", "user_id", "project_id"),
    sa.Index("tokens_by_project", "project_id"),
    sa.Index("tokens_by_expiry", "expires_at"),
    sqlite_with_rowid=False,
)
