"""Tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "fences",
        sa.Column("run", sa.String(length=36), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.CheckConstraint("epoch >= 1", name="fences_epoch"),
        sa.PrimaryKeyConstraint("run"),
    )
    op.create_table(
        "hosts",
        sa.Column("number", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("service_id", sa.String(length=36), nullable=False),
        sa.Column("driver", sa.String(length=32), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mib", sa.Integer(), nullable=False),
        sa.Column("disk_gib", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("hypervisor_type", sa.String(length=64), nullable=False),
        sa.Column("hypervisor_version", sa.Integer(), nullable=False),
        sa.Column("cpu_info", sa.Text(), nullable=False),
        sa.Column("host_ip", sa.String(length=64), nullable=False),
        sa.CheckConstraint("vcpus >= 1 AND memory_mib >= 1 AND disk_gib >= 0", name="hosts_sizes"),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("service_id"),
    )
    op.create_table(
        "servers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("vm_state", sa.String(length=16), nullable=False),
        sa.Column("task_state", sa.String(length=32), nullable=True),
        sa.Column("locked_by_run", sa.String(length=36), nullable=True),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("zone", sa.String(length=255), nullable=True),
        sa.Column("flavor_id", sa.String(length=255), nullable=False),
        sa.Column("image_id", sa.String(length=36), nullable=True),
        sa.Column("key_name", sa.String(length=255), nullable=True),
        sa.Column("hostname", sa.String(length=255), nullable=False),
        sa.Column("reservation_id", sa.String(length=64), nullable=False),
        sa.Column("locked", sa.Boolean(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("launched_at", sa.Double(), nullable=True),
        sa.Column("terminated_at", sa.Double(), nullable=True),
        sa.Column("deleted_at", sa.Double(), nullable=True),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("(vm_state = 'deleted') = (deleted_at IS NOT NULL)", name="servers_deleted"),
        sa.CheckConstraint(
            "vm_state IN ('building', 'active', 'stopped', 'resized', 'error', 'deleted')", name="servers_vm_state"
        ),
        sa.CheckConstraint(
            "vm_state NOT IN ('active', 'stopped', 'resized') OR host IS NOT NULL", name="servers_live_has_host"
        ),
        sa.CheckConstraint("task_state IS NULL OR locked_by_run IS NOT NULL", name="servers_task_is_somebodys"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("servers_by_host", "servers", ["host"], unique=False)
    op.create_index("servers_by_project", "servers", ["project_id", "created_at", "id"], unique=False)
    op.create_index("servers_by_time", "servers", ["created_at", "id"], unique=False)
