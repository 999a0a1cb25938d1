"""Tables of the embedded volume service.

Invariant: a volume is not deleted while it has a snapshot or an attachment; an exported attachment has a connector, and
export names are unique.
"""

import sqlalchemy as sa

metadata = sa.MetaData()

Doc = sa.LargeBinary
"""A msgspec-encoded value, read and written as a whole."""

types = sa.Table(
    "volume_types",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("description", sa.String(255)),
    sa.Column("public", sa.Boolean, nullable=False),
    sa.Column("extra_specs", Doc, nullable=False),
    sa.Column("projects", Doc, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
)

volumes = sa.Table(
    "volumes",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(255)),
    sa.Column("description", sa.String(255)),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("size_gib", sa.Integer, nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("type_id", sa.ForeignKey("volume_types.id"), nullable=False),
    sa.Column("zone", sa.String(255), nullable=False),
    sa.Column("bootable", sa.Boolean, nullable=False),
    sa.Column("multiattach", sa.Boolean, nullable=False),
    sa.Column("readonly", sa.Boolean, nullable=False),
    sa.Column("image_id", sa.String(36)),
    sa.Column("snapshot_id", sa.String(36)),
    sa.Column("source_volume_id", sa.String(36)),
    sa.Column("upload_image_id", sa.String(36)),
    sa.Column("image_metadata", Doc, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.CheckConstraint("size_gib >= 1", name="volume_has_a_size"),
    sa.CheckConstraint(
        "status IN ('creating', 'available', 'reserved', 'attaching', 'in-use', 'detaching', 'deleting', 'error',"
        " 'error_deleting', 'error_extending', 'extending', 'uploading', 'downloading', 'maintenance')",
        name="volume_status",
    ),
    sa.Index("volumes_by_project", "project_id", "created_at", "id"),
    sa.Index("volumes_by_age", "created_at", "id"),
    sa.Index("volumes_by_status", "status"),
    sa.Index("volumes_by_type", "type_id"),
)

volume_metadata = sa.Table(
    "volume_metadata",
    metadata,
    sa.Column("volume_id", sa.ForeignKey("volumes.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("value", sa.String(255), nullable=False),
    sa.Index("volume_metadata_by_name", "name", "value"),
    sqlite_with_rowid=False,
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("volume_id", sa.ForeignKey("volumes.id"), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255)),
    sa.Column("description", sa.String(255)),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("size_gib", sa.Integer, nullable=False),
    sa.Column("metadata", Doc, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.CheckConstraint(
        "status IN ('creating', 'available', 'deleting', 'error', 'error_deleting')", name="snapshot_status"
    ),
    sa.Index("snapshots_by_volume", "volume_id"),
    sa.Index("snapshots_by_project", "project_id", "created_at", "id"),
    sa.Index("snapshots_by_status", "status"),
)

attachments = sa.Table(
    "attachments",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("volume_id", sa.ForeignKey("volumes.id"), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("server_id", sa.String(36)),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("mode", sa.String(2)),
    sa.Column("connector", Doc, nullable=False),
    sa.Column("connection", Doc, nullable=False),
    sa.Column("export", sa.String(64), unique=True),  # NULL: not exported
    sa.Column("host", sa.String(255)),
    sa.Column("device", sa.String(255)),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("attached_at", sa.Double),
    sa.CheckConstraint("status IN ('reserved', 'attaching', 'attached')", name="attachment_status"),
    sa.CheckConstraint("mode IN ('rw', 'ro')", name="attachment_mode"),
    sa.Index("attachments_by_volume", "volume_id"),
    sa.Index("attachments_by_server", "server_id"),
    sa.Index("attachments_by_project", "project_id", "created_at", "id"),
    sa.Index("attachments_by_age", "created_at", "id"),
)

limits = sa.Table(
    "volume_limits",
    metadata,
    sa.Column("project_id", sa.String(255), primary_key=True),
    sa.Column("resource", sa.String(64), primary_key=True),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

class_limits = sa.Table(
    "volume_class_limits",
    metadata,
    sa.Column("class_name", sa.String(255), primary_key=True),
    sa.Column("resource", sa.String(64), primary_key=True),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)
