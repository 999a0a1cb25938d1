"""Routers, floating IPs, external networks, and quotas."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "quotas",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=64), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "resource"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "routers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("admin_state_up", sa.Boolean(), nullable=False),
        sa.Column("enable_snat", sa.Boolean(), nullable=False),
        sa.Column("routes", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("routers_by_name", "routers", ["name"], unique=False)
    op.create_index("routers_by_project", "routers", ["project_id"], unique=False)
    op.create_table(
        "floating_ips",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("floating_network_id", sa.String(length=36), nullable=False),
        sa.Column("floating_port_id", sa.String(length=36), nullable=False),
        sa.Column("floating_ip_address", sa.String(length=64), nullable=False),
        sa.Column("fixed_port_id", sa.String(length=36), nullable=True),
        sa.Column("fixed_ip_address", sa.String(length=64), nullable=True),
        sa.Column("router_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["fixed_port_id"], ["ports.id"], ondelete="SET NULL"),
        sa.ForeignKeyConstraint(
            ["floating_network_id"],
            ["networks.id"],
        ),
        sa.ForeignKeyConstraint(["floating_port_id"], ["ports.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["router_id"], ["routers.id"], ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint(
            "floating_network_id", "fixed_port_id", "fixed_ip_address", name="one_floating_ip_of_network"
        ),
        sa.UniqueConstraint("floating_port_id"),
    )
    op.create_index("floating_ips_by_fixed_port", "floating_ips", ["fixed_port_id"], unique=False)
    op.create_index("floating_ips_by_name", "floating_ips", ["name"], unique=False)
    op.create_index("floating_ips_by_project", "floating_ips", ["project_id"], unique=False)
    op.create_index("floating_ips_by_router", "floating_ips", ["router_id"], unique=False)
    op.add_column("networks", sa.Column("external", sa.Boolean(), server_default=sa.false(), nullable=False))
