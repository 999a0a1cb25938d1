"""Tables of the embedded identity service.

Invariant: a row of `tokens` repeats what every request needs to know about its owner, so that one look-up by primary
key is enough; the store changes the copy in the transaction that changes the original. Only the roles of a token for
the system, which few requests have, are read with it.
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
    sa.Column("tags", sa.JSON, nullable=False, server_default="[]"),  # list of words
    sa.Column("extra", sa.JSON, nullable=False, server_default="{}"),  # attribute -> value
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
    sa.Column("extra", sa.JSON, nullable=False, server_default="{}"),  # attribute -> value
    sa.UniqueConstraint("domain_id", "name", name="one_user_of_a_name"),
    sa.CheckConstraint("name <> ''", name="user_has_name"),
)

roles = sa.Table(
    "roles",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(NAME_CHARS), nullable=False, unique=True),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("spelling", sa.String(NAME_CHARS), nullable=False, server_default=""),  # the name as it was sent
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

groups = sa.Table(
    "groups",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("domain_id", sa.ForeignKey("domains.id"), nullable=False),
    sa.Column("name", sa.String(NAME_CHARS), nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.UniqueConstraint("domain_id", "name", name="one_group_of_a_name"),
)

group_members = sa.Table(
    "group_members",
    metadata,
    sa.Column("group_id", sa.ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", sa.ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    sa.Index("group_members_by_user", "user_id"),
    sqlite_with_rowid=False,
)

group_assignments = sa.Table(
    "group_assignments",
    metadata,
    sa.Column("group_id", sa.ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("project_id", sa.ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("role_id", sa.ForeignKey("roles.id"), primary_key=True),
    sa.Index("group_assignments_by_project", "project_id"),
    sa.Index("group_assignments_by_role", "role_id"),
    sqlite_with_rowid=False,
)

system_assignments = sa.Table(
    "system_assignments",
    metadata,
    sa.Column("user_id", sa.ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("role_id", sa.ForeignKey("roles.id"), primary_key=True),
    sa.Index("system_assignments_by_role", "role_id"),
    sqlite_with_rowid=False,
)

system_group_assignments = sa.Table(
    "system_group_assignments",
    metadata,
    sa.Column("group_id", sa.ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("role_id", sa.ForeignKey("roles.id"), primary_key=True),
    sa.Index("system_group_assignments_by_role", "role_id"),
    sqlite_with_rowid=False,
)

application_credentials = sa.Table(
    "application_credentials",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("user_id", sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    sa.Column("project_id", sa.ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    sa.Column("name", sa.String(NAME_CHARS), nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("secret_hash", sa.Text, nullable=False),
    sa.Column("roles", sa.JSON, nullable=False),  # list of names
    sa.Column("unrestricted", sa.Boolean, nullable=False),
    sa.Column("expires_at", sa.Double),
    sa.UniqueConstraint("user_id", "name", name="one_application_credential_of_a_name"),
    sa.Index("application_credentials_by_project", "project_id"),
)

credentials = sa.Table(
    "credentials",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("user_id", sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    sa.Column("type", sa.String(NAME_CHARS), nullable=False),
    sa.Column("blob", sa.Text, nullable=False),
    sa.Column("project_id", sa.ForeignKey("projects.id", ondelete="CASCADE")),
    sa.Index("credentials_by_user", "user_id"),
)

catalog_regions = sa.Table(
    "catalog_regions",
    metadata,
    sa.Column("id", sa.String(NAME_CHARS), primary_key=True),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("parent_region_id", sa.String(NAME_CHARS)),  # may be the region of the settings, which has no row
)

catalog_services = sa.Table(
    "catalog_services",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("type", sa.String(NAME_CHARS), nullable=False),
    sa.Column("name", sa.String(NAME_CHARS), nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
)

catalog_endpoints = sa.Table(
    "catalog_endpoints",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("service_id", sa.ForeignKey("catalog_services.id", ondelete="CASCADE"), nullable=False),
    sa.Column("interface", sa.String(8), nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("region_id", sa.String(NAME_CHARS)),
    sa.Column("enabled", sa.Boolean, nullable=False),
)

registered_limits = sa.Table(
    "registered_limits",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("service_id", sa.String(64), nullable=False),  # of an own service, or of one of `catalog_services`
    sa.Column("region_id", sa.String(NAME_CHARS), nullable=False),  # "": all regions
    sa.Column("resource_name", sa.String(NAME_CHARS), nullable=False),
    sa.Column("default_limit", sa.Integer, nullable=False),  # -1: none
    sa.Column("description", sa.Text),
    sa.UniqueConstraint("service_id", "region_id", "resource_name", name="one_registered_limit_of_a_resource"),
)

limits = sa.Table(
    "limits",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("registered_limit_id", sa.ForeignKey("registered_limits.id"), nullable=False),
    sa.Column("project_id", sa.ForeignKey("projects.id", ondelete="CASCADE")),
    sa.Column("domain_id", sa.ForeignKey("domains.id", ondelete="CASCADE")),
    sa.Column("resource_limit", sa.Integer, nullable=False),  # -1: none
    sa.Column("description", sa.Text),
    sa.UniqueConstraint("registered_limit_id", "project_id", name="one_limit_of_a_project"),
    sa.UniqueConstraint("registered_limit_id", "domain_id", name="one_limit_of_a_domain"),
    sa.CheckConstraint("(project_id IS NULL) <> (domain_id IS NULL)", name="limit_has_one_holder"),
    sa.Index("limits_by_project", "project_id"),
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
    sa.Column("roles", sa.Text, nullable=False),  # in the project: JSON list of names, implied ones included
    sa.Column("methods", sa.Text, nullable=False),  # JSON list
    sa.Column("audit_ids", sa.Text, nullable=False),  # JSON list
    sa.Column("issued_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
    sa.Column("application_credential_id", sa.String(64)),  # the store removes the tokens with the credential
    sa.Column("system_scope", sa.String(8)),  # "all"; NULL: not for the system
    sa.CheckConstraint("length(digest) = 32", name="digest_is_sha256"),
    sa.CheckConstraint("(project_id IS NULL) = (project_name IS NULL)", name="scope_is_whole"),
    sa.CheckConstraint("project_id IS NOT NULL OR roles = '[]'", name="no_roles_without_project"),
    sa.CheckConstraint("project_id IS NULL OR roles <> '[]'", name="no_project_without_roles"),
    sa.Index("tokens_by_user", "user_id", "project_id"),
    sa.Index("tokens_by_project", "project_id"),
    sa.Index("tokens_by_expiry", "expires_at"),
    sqlite_with_rowid=False,
)
