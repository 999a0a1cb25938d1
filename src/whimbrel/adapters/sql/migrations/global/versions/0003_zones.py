"""Zones with ids.

Until now a zone was its name, on aggregates, servers and pins: those names become ids, so that all of it keeps meaning
the same. The default zone, which no aggregate needs to name, is written down when the cloud starts.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    zones = op.create_table(
        "zones",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    since: dict[str, float] = {}
    for metadata, created_at in op.get_bind().execute(sa.text("SELECT metadata, created_at FROM aggregates")):
        known = json.loads(metadata) if isinstance(metadata, str) else metadata  # psycopg has read it already
        if name := known.get("availability_zone"):
            since[name] = min(created_at, since.get(name, created_at))
    op.bulk_insert(zones, [{"id": name, "name": name, "created_at": at} for name, at in since.items()])
