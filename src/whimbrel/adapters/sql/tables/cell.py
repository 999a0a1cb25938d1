"""Tables of a cell's database: its hosts, their PCI devices, the servers in the cell, and the fences of moves."""

import sqlalchemy as sa

from whimbrel.adapters.sql.tables.host_triggers import after_create

metadata = sa.MetaData()
sa.event.listen(metadata, "after_create", after_create)

hosts = sa.Table(
    "hosts",
    metadata,
    sa.Column("number", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("id", sa.String(36), nullable=False, unique=True),
    sa.Column("service_id", sa.String(36), nullable=False, unique=True),
    sa.Column("driver", sa.String(32), nullable=False),
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mib", sa.Integer, nullable=False),
    sa.Column("disk_gib", sa.Integer, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("disabled_reason", sa.Text),
    sa.Column("forced_down", sa.Boolean, nullable=False),
    sa.Column("seen_at", sa.Double, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("hypervisor_type", sa.String(64), nullable=False),
    sa.Column("hypervisor_version", sa.Integer, nullable=False),
    sa.Column("cpu_info", sa.Text, nullable=False),
    sa.Column("host_ip", sa.String(64), nullable=False),
    sa.Column("numa", sa.Text, nullable=False, server_default="[]"),  # JSON list of NUMA nodes
    sa.Column("metrics", sa.Text, nullable=False, server_default="{}"),  # JSON: the last reported load metrics
    sa.Column("session", sa.Integer, nullable=False, server_default="0"),  # of its agent; 0: it had none yet
    sa.Column("agent", sa.Text, nullable=False, server_default="{}"),  # JSON: release and verbs of its agent
    sa.Column("description", sa.Text, nullable=False, server_default="{}"),  # JSON: domain.host_description
    sa.Column("forced_down_by", sa.String(255)),  # the user who said so
    sa.Column("forced_down_reason", sa.Text),
    sa.Column("forced_down_at", sa.Double),
    sa.Column("self_fence_s", sa.Double),  # the host stops its guests when it was cut off for so long; NULL: never
    sa.Column("hardware", sa.Text, nullable=False, server_default=""),  # JSON: domain.host_hardware; "": not reported
    sa.CheckConstraint("vcpus >= 1 AND memory_mib >= 1 AND disk_gib >= 0", name="hosts_sizes"),
)

servers = sa.Table(
    "servers",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("vm_state", sa.String(32), nullable=False),
    sa.Column("task_state", sa.String(32)),
    sa.Column("locked_by_run", sa.String(36)),
    sa.Column("standing", sa.String(8), nullable=False, server_default="whole"),
    sa.Column("host", sa.String(255)),
    sa.Column("zone", sa.String(255)),
    sa.Column("flavor_id", sa.String(255), nullable=False),
    sa.Column("image_id", sa.String(36)),
    sa.Column("key_name", sa.String(255)),
    sa.Column("hostname", sa.String(255), nullable=False),
    sa.Column("reservation_id", sa.String(64), nullable=False),
    sa.Column("locked", sa.Boolean, nullable=False),
    sa.Column("tags", sa.Text, nullable=False),  # "\ntag1\ntag2\n", for substring search
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("launched_at", sa.Double),
    sa.Column("terminated_at", sa.Double),
    sa.Column("deleted_at", sa.Double),
    sa.Column("record", sa.LargeBinary, nullable=False),  # the whole Server; the columns above repeat parts of it
    sa.CheckConstraint(
        "vm_state IN ('building', 'active', 'paused', 'suspended', 'rescued', 'stopped', 'resized', 'shelved',"
        " 'shelved_offloaded', 'soft-delete', 'error', 'deleted')",
        name="servers_vm_state",
    ),
    sa.CheckConstraint("(vm_state = 'deleted') = (deleted_at IS NOT NULL)", name="servers_deleted"),
    sa.CheckConstraint(
        "vm_state NOT IN ('active', 'paused', 'suspended', 'rescued', 'stopped', 'resized', 'shelved')"
        " OR host IS NOT NULL",
        name="servers_live_has_host",
    ),
    sa.CheckConstraint("task_state IS NULL OR locked_by_run IS NOT NULL", name="servers_task_is_somebodys"),
    sa.CheckConstraint("standing IN ('whole', 'shared', 'frozen')", name="servers_standing"),
    sa.Index("servers_by_project", "project_id", "created_at", "id"),
    sa.Index("servers_by_host", "host"),
    sa.Index("servers_by_time", "created_at", "id"),
)

fences = sa.Table(
    "fences",
    metadata,
    sa.Column("run", sa.String(36), primary_key=True),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("progress", sa.Integer, nullable=False, server_default="0"),  # see domain.guest.Order
    sa.CheckConstraint("epoch >= 1", name="fences_epoch"),
)

build_failures = sa.Table(  # of hosts, since its last success
    "build_failures",
    metadata,
    sa.Column("run", sa.String(36), primary_key=True),
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
)

pci_devices = sa.Table(
    "pci_devices",
    metadata,
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("address", sa.String(12), primary_key=True),
    sa.Column("vendor_id", sa.String(4), nullable=False),
    sa.Column("product_id", sa.String(4), nullable=False),
    sa.Column("physnet", sa.String(255)),
    sa.Column("parent_ifname", sa.String(255)),
    sa.Column("live_migratable", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("is_withdrawn", sa.Boolean, nullable=False),
    sa.Column("server_id", sa.String(36)),  # the server that uses it, for one of its requests
    sa.Column("slot", sa.String(36)),
    sa.Column("request", sa.String(255)),
    sa.CheckConstraint(
        "(server_id IS NULL) = (slot IS NULL) AND (server_id IS NULL) = (request IS NULL)", name="pci_devices_holder"
    ),
    sa.CheckConstraint("NOT is_withdrawn OR server_id IS NOT NULL", name="pci_devices_withdrawn_are_held"),
)

host_changes = sa.Table(  # appended to by triggers: see host_triggers
    "host_changes",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("xid", sa.BigInteger, nullable=False),  # on PostgreSQL, of the transaction
    sa.Index("host_changes_by_xid", "xid"),
)
