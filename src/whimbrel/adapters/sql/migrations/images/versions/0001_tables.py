"""Tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "images",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("visibility", sa.String(length=16), nullable=False),
        sa.Column("disk_format", sa.String(length=20), nullable=True),
        sa.Column("container_format", sa.String(length=20), nullable=True),
        sa.Column("min_disk_gib", sa.Integer(), nullable=False),
        sa.Column("min_ram_mib", sa.Integer(), nullable=False),
        sa.Column("protected", sa.Boolean(), nullable=False),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("file_name", sa.String(length=64), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("md5", sa.String(length=32), nullable=True),
        sa.Column("sha512", sa.String(length=128), nullable=True),
        sa.CheckConstraint("visibility IN ('public', 'private', 'shared', 'community')", name="image_visibility"),
        sa.CheckConstraint(
            "(file_name IS NULL AND size_bytes IS NULL AND md5 IS NULL AND sha512 IS NULL) OR (file_name IS NOT NULL AND size_bytes >= 0 AND length(md5) = 32 AND length(sha512) = 128)",
            name="image_file_is_whole",
        ),
        sa.CheckConstraint("min_disk_gib >= 0 AND min_ram_mib >= 0", name="image_minima"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("file_name"),
    )
    op.create_index("images_by_age", "images", ["created_at", "id"], unique=False)
    op.create_index("images_by_name", "images", ["name"], unique=False)
    op.create_index("images_by_owner", "images", ["owner"], unique=False)
    op.create_table(
        "image_members",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.CheckConstraint("status IN ('pending', 'accepted', 'rejected')", name="member_status"),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("image_id", "project_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("image_members_by_project", "image_members", ["project_id"], unique=False)
    op.create_table(
        "image_properties",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("image_id", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "image_tags",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("image_id", "tag"),
        sqlite_with_rowid=False,
    )
    op.create_index("image_tags_by_tag", "image_tags", ["tag"], unique=False)
