"""The spelling of names of roles. An older process leaves it as it is; names stay in lower case for it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("roles", sa.Column("spelling", sa.String(255), nullable=False, server_default=""))
