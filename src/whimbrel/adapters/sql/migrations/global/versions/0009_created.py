"""When servers were created, for those who ask while their cell is away. It is when they were asked for."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("directory", sa.Column("created_at", sa.Double(), nullable=False, server_default="0"))
    op.execute(
        "UPDATE directory SET created_at = COALESCE((SELECT min(runs.created_at) FROM runs"
        " WHERE runs.subject = directory.server_id), 0)"
    )
