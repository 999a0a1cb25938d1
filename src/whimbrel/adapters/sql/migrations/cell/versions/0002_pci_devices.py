"""PCI devices."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "pci_devices",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("address", sa.String(length=12), nullable=False),
        sa.Column("vendor_id", sa.String(length=4), nullable=False),
        sa.Column("product_id", sa.String(length=4), nullable=False),
        sa.Column("physnet", sa.String(length=255), nullable=True),
        sa.Column("parent_ifname", sa.String(length=255), nullable=True),
        sa.Column("is_withdrawn", sa.Boolean(), nullable=False),
        sa.Column("server_id", sa.String(length=36), nullable=True),
        sa.Column("slot", sa.String(length=36), nullable=True),
        sa.Column("request", sa.String(length=255), nullable=True),
        sa.CheckConstraint(
            "(server_id IS NULL) = (slot IS NULL) AND (server_id IS NULL) = (request IS NULL)",
            name="pci_devices_holder",
        ),
        sa.CheckConstraint("NOT is_withdrawn OR server_id IS NOT NULL", name="pci_devices_withdrawn_are_held"),
        sa.PrimaryKeyConstraint("host", "address"),
    )
