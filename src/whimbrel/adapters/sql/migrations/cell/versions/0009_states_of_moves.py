"""States of servers that are paused, suspended, shelved or rescued; who said that a host is down; self-fencing."""

import sqlalchemy as sa
from alembic import op

from whimbrel.adapters.sql.tables.host_triggers import create_triggers, without_update_trigger

revision = "0009"
down_revision = "0008"

permits_more = ("servers_vm_state", "servers_live_has_host", "vm_state")

STATES = (
    "vm_state IN ('building', 'active', 'paused', 'suspended', 'rescued', 'stopped', 'resized', 'shelved',"
    " 'shelved_offloaded', 'soft-delete', 'error', 'deleted')"
)
ON_A_HOST = (
    "vm_state NOT IN ('active', 'paused', 'suspended', 'rescued', 'stopped', 'resized', 'shelved') OR host IS NOT NULL"
)


def upgrade() -> None:
    with (
        without_update_trigger(op.get_bind(), "servers"),
        op.batch_alter_table("servers") as batch,
    ):  # the new checks permit more than the old ones
        batch.drop_constraint("servers_vm_state", type_="check")
        batch.drop_constraint("servers_live_has_host", type_="check")
        batch.alter_column("vm_state", type_=sa.String(length=32))  # shelved_offloaded is longer than 16
        batch.create_check_constraint("servers_vm_state", STATES)
        batch.create_check_constraint("servers_live_has_host", ON_A_HOST)
    if op.get_bind().dialect.name == "sqlite":  # there the table was made anew
        create_triggers(op.get_bind(), ("servers",))
    op.add_column("hosts", sa.Column("forced_down_by", sa.String(length=255), nullable=True))
    op.add_column("hosts", sa.Column("forced_down_reason", sa.Text(), nullable=True))
    op.add_column("hosts", sa.Column("forced_down_at", sa.Double(), nullable=True))
    op.add_column("hosts", sa.Column("self_fence_s", sa.Double(), nullable=True))
