"""Indexes in the order in which attachments are listed."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.drop_index("attachments_by_project", "attachments")
    op.create_index("attachments_by_project", "attachments", ["project_id", "created_at", "id"])
    op.create_index("attachments_by_age", "attachments", ["created_at", "id"])
