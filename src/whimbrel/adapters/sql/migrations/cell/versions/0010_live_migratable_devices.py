"""Which PCI devices can be moved while their guest runs."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("pci_devices", sa.Column("live_migratable", sa.Boolean(), server_default=sa.false(), nullable=False))
