"""Records that another cell has too, while their server moves there."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    with op.batch_alter_table("servers") as batch:
        batch.add_column(sa.Column("standing", sa.String(length=8), nullable=False, server_default="whole"))
        batch.create_check_constraint("servers_standing", "standing IN ('whole', 'shared', 'frozen')")
