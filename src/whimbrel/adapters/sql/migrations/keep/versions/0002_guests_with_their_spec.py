"""Guests with their spec: a simulated host keeps all that a guest was defined with, its nics and volumes too."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

OF_SPEC = ("key", "name", "vcpus", "memory_mib", "root_gib")

kept = sa.table("kept", sa.column("space"), sa.column("key"), sa.column("value", sa.LargeBinary))


def upgrade() -> None:
    connection = op.get_bind()
    guests = connection.execute(sa.select(kept).where(kept.c.space.startswith("guests/"))).all()
    for space, key, value in guests:
        here = (kept.c.space == space, kept.c.key == key)
        renewed = json.dumps(_with_spec(json.loads(bytes(value)))).encode()
        connection.execute(sa.update(kept).where(*here).values(value=renewed))


def _with_spec(guest: dict[str, Any]) -> dict[str, Any]:
    spec = {name: guest.pop(name) for name in OF_SPEC}
    return {"spec": {**spec, "image_id": None, "project_id": ""}, **guest}
