"""Tables of the embedded image service.

Invariant: an image has a file if and only if it has size and checksums, and no two images have the same file.
"""

import sqlalchemy as sa

metadata = sa.MetaData()

images = sa.Table(
    "images",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(255)),
    sa.Column("owner", sa.String(255)),
    sa.Column("visibility", sa.String(16), nullable=False),
    sa.Column("disk_format", sa.String(20)),
    sa.Column("container_format", sa.String(20)),
    sa.Column("min_disk_gib", sa.Integer, nullable=False),
    sa.Column("min_ram_mib", sa.Integer, nullable=False),
    sa.Column("protected", sa.Boolean, nullable=False),
    sa.Column("hidden", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("file_name", sa.String(64), unique=True),  # NULL: queued
    sa.Column("size_bytes", sa.BigInteger),
    sa.Column("md5", sa.String(32)),
    sa.Column("sha512", sa.String(128)),
    sa.Column("held", sa.String(16)),  # its status although it has a file: "uploading", "deactivated"
    sa.CheckConstraint("visibility IN ('public', 'private', 'shared', 'community')", name="image_visibility"),
    sa.CheckConstraint("min_disk_gib >= 0 AND min_ram_mib >= 0", name="image_minima"),
    sa.CheckConstraint(
        "(file_name IS NULL AND size_bytes IS NULL AND md5 IS NULL AND sha512 IS NULL)"
        " OR (file_name IS NOT NULL AND size_bytes >= 0 AND length(md5) = 32 AND length(sha512) = 128)",
        name="image_file_is_whole",
    ),
    sa.Index("images_by_owner", "owner"),
    sa.Index("images_by_name", "name"),
    sa.Index("images_by_age", "created_at", "id"),
)


def _image_id() -> sa.Column[str]:
    return sa.Column("image_id", sa.ForeignKey("images.id", ondelete="CASCADE"), primary_key=True)


properties = sa.Table(
    "image_properties",
    metadata,
    _image_id(),
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)

tags = sa.Table(
    "image_tags",
    metadata,
    _image_id(),
    sa.Column("tag", sa.String(255), primary_key=True),
    sa.Index("image_tags_by_tag", "tag"),
    sqlite_with_rowid=False,
)

members = sa.Table(
    "image_members",
    metadata,
    _image_id(),
    sa.Column("project_id", sa.String(255), primary_key=True),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.CheckConstraint("status IN ('pending', 'accepted', 'rejected')", name="member_status"),
    sa.Index("image_members_by_project", "project_id"),
    sqlite_with_rowid=False,
)

metadef_namespaces = sa.Table(
    "metadef_namespaces",
    metadata,
    sa.Column("name", sa.String(80), primary_key=True),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("document", sa.Text, nullable=False),  # JSON: ports.embedded.metadefs.Namespace
)
