"""Tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "volume_limits",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=64), nullable=False),
        sa.Column("hard_limit", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "resource"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "volume_types",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("extra_specs", sa.LargeBinary(), nullable=False),
        sa.Column("projects", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "volumes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("size_gib", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("type_id", sa.String(length=36), nullable=False),
        sa.Column("zone", sa.String(length=255), nullable=False),
        sa.Column("bootable", sa.Boolean(), nullable=False),
        sa.Column("multiattach", sa.Boolean(), nullable=False),
        sa.Column("readonly", sa.Boolean(), nullable=False),
        sa.Column("image_id", sa.String(length=36), nullable=True),
        sa.Column("snapshot_id", sa.String(length=36), nullable=True),
        sa.Column("source_volume_id", sa.String(length=36), nullable=True),
        sa.Column("upload_image_id", sa.String(length=36), nullable=True),
        sa.Column("image_metadata", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "status IN ('creating', 'available', 'reserved', 'attaching', 'in-use', 'detaching', 'deleting', 'error', 'error_deleting', 'error_extending', 'extending', 'uploading', 'downloading', 'maintenance')",
            name="volume_status",
        ),
        sa.CheckConstraint("size_gib >= 1", name="volume_has_a_size"),
        sa.ForeignKeyConstraint(
            ["type_id"],
            ["volume_types.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("volumes_by_age", "volumes", ["created_at", "id"], unique=False)
    op.create_index("volumes_by_project", "volumes", ["project_id", "created_at", "id"], unique=False)
    op.create_index("volumes_by_status", "volumes", ["status"], unique=False)
    op.create_index("volumes_by_type", "volumes", ["type_id"], unique=False)
    op.create_table(
        "attachments",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("volume_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("server_id", sa.String(length=36), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("mode", sa.String(length=2), nullable=True),
        sa.Column("connector", sa.LargeBinary(), nullable=False),
        sa.Column("connection", sa.LargeBinary(), nullable=False),
        sa.Column("export", sa.String(length=64), nullable=True),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("device", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("attached_at", sa.Double(), nullable=True),
        sa.CheckConstraint("mode IN ('rw', 'ro')", name="attachment_mode"),
        sa.CheckConstraint("status IN ('reserved', 'attaching', 'attached')", name="attachment_status"),
        sa.ForeignKeyConstraint(
            ["volume_id"],
            ["volumes.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("export"),
    )
    op.create_index("attachments_by_project", "attachments", ["project_id"], unique=False)
    op.create_index("attachments_by_server", "attachments", ["server_id"], unique=False)
    op.create_index("attachments_by_volume", "attachments", ["volume_id"], unique=False)
    op.create_table(
        "snapshots",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("volume_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("size_gib", sa.Integer(), nullable=False),
        sa.Column("metadata", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "status IN ('creating', 'available', 'deleting', 'error', 'error_deleting')", name="snapshot_status"
        ),
        sa.ForeignKeyConstraint(
            ["volume_id"],
            ["volumes.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("snapshots_by_project", "snapshots", ["project_id", "created_at", "id"], unique=False)
    op.create_index("snapshots_by_status", "snapshots", ["status"], unique=False)
    op.create_index("snapshots_by_volume", "snapshots", ["volume_id"], unique=False)
    op.create_table(
        "volume_metadata",
        sa.Column("volume_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("value", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["volume_id"], ["volumes.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("volume_id", "name"),
        sqlite_with_rowid=False,
    )
    op.create_index("volume_metadata_by_name", "volume_metadata", ["name", "value"], unique=False)
