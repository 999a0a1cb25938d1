"""The tables of Nova's own databases, with the columns that are read.

Source: openstack/nova, nova/db/api/models.py and nova/db/main/models.py; these columns are the same from 2023.1 to 34.
"""

from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.placement_transfer.openstack_tables import written

API_VERSIONS = ("b30f573d3377", "cdeec0c85668")
CELL_VERSIONS = (
    "960aac0e09ea",
    "1b91788ec3a6",
    "1acf2c98e646",
    "13863f4e1612",
    "d60bddf7a903",
    "2903cd72dc14",
    "ab450ba04102",
)
"""Known versions of the schemas, by Alembic's revisions: since 2023.1."""

metadata = sa.MetaData()


def _table(named: str, /, **columns: type[sa.types.TypeEngine[Any]]) -> sa.Table:
    made = (sa.Column(column, kind) for column, kind in columns.items())
    return sa.Table(named, metadata, *written(), sa.Column("id", sa.Integer, primary_key=True), *made)


S, N, B, T, D = sa.String, sa.Integer, sa.Boolean, sa.Text, sa.DateTime

cell_mappings = _table("cell_mappings", uuid=S, name=S, transport_url=T, database_connection=T, disabled=B)
instance_mappings = _table(
    "instance_mappings", instance_uuid=S, cell_id=N, project_id=S, user_id=S, queued_for_delete=B
)
request_specs = _table("request_specs", instance_uuid=S, spec=T)
build_requests = _table("build_requests", instance_uuid=S)
aggregate_hosts = _table("aggregate_hosts", host=S, aggregate_id=N)
instance_groups = _table("instance_groups", uuid=S, name=S)
instance_group_policy = _table("instance_group_policy", group_id=N, policy=S, rules=T)
instance_group_member = _table("instance_group_member", instance_uuid=S, group_id=N)
aggregate_metadata = _table("aggregate_metadata", aggregate_id=N, key=S, value=S)

instances = _table(
    "instances", uuid=S, display_name=S, host=S, node=S, vm_state=S, task_state=S, vcpus=N, memory_mb=N,
    instance_type_id=N, image_ref=S, hidden=B, deleted=N, launched_at=D, project_id=S, user_id=S,
)  # fmt: skip
migrations = _table(
    "migrations", uuid=S, instance_uuid=S, migration_type=S, status=S, source_compute=S, source_node=S, dest_compute=S,
    dest_node=S, cross_cell_move=B, hidden=B, deleted=N,
)  # fmt: skip
services = _table("services", host=S, binary=S, last_seen_up=D, forced_down=B, deleted=N)
compute_nodes = _table("compute_nodes", uuid=S, host=S, hypervisor_hostname=S, deleted=N, deleted_at=D)
instance_extra = _table("instance_extra", instance_uuid=S, flavor=T, deleted=N)
instance_actions = _table("instance_actions", instance_uuid=S, action=S, request_id=S, start_time=D, deleted=N)
instance_actions_events = _table(
    "instance_actions_events", action_id=N, event=S, host=S, start_time=D, finish_time=D, deleted=N
)
pci_devices = _table(
    "pci_devices", compute_node_id=N, address=S, dev_type=S, status=S, instance_uuid=S, request_id=S, parent_addr=S,
    deleted=N,
)  # fmt: skip
block_device_mapping = _table(
    "block_device_mapping", instance_uuid=S, volume_id=S, attachment_id=S, boot_index=N, connection_info=T, deleted=N,
    deleted_at=D,
)  # fmt: skip
