"""Tables of the embedded network service.

Invariant: addresses and MACs are unique per network, VLANs per physical network, active bindings per port, default
groups per project, and floating IPs per network and fixed address.
"""

import sqlalchemy as sa

from whimbrel.adapters.sql.tables.partial_index import where

metadata = sa.MetaData()


def _record(name: str, *rest: sa.schema.SchemaItem) -> sa.Table:
    """Return a table with the columns of every record and these."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.String(255), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        *rest,
        sa.Index(f"{name}_by_project", "project_id"),
        sa.Index(f"{name}_by_name", "name"),
    )


def _part_of(column: str, table: str) -> sa.Column[str]:
    return sa.Column(column, sa.ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=False)


qos_policies = _record(
    "qos_policies",
    sa.Column("shared", sa.Boolean, nullable=False),
    sa.Column("is_default", sa.Boolean, nullable=False),
)

qos_rules = _record(
    "qos_rules",
    _part_of("policy_id", "qos_policies"),
    sa.Column("type", sa.String(32), nullable=False),
    sa.Column("direction", sa.String(16), nullable=False),
    sa.Column("amount", sa.BigInteger, nullable=False),
    sa.Column("burst_kbps", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("policy_id", "type", "direction", name="one_qos_rule_of_a_kind"),
    sa.CheckConstraint("amount >= 0 AND burst_kbps >= 0", name="qos_amounts"),
)

networks = _record(
    "networks",
    sa.Column("shared", sa.Boolean, nullable=False),
    sa.Column("admin_state_up", sa.Boolean, nullable=False),
    sa.Column("mtu", sa.Integer, nullable=False),
    sa.Column("port_security_enabled", sa.Boolean, nullable=False),
    sa.Column("qos_policy_id", sa.ForeignKey("qos_policies.id")),
    sa.Column("external", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("is_default", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index("networks_by_qos_policy", "qos_policy_id"),
)

segments = _record(
    "segments",
    _part_of("network_id", "networks"),
    sa.Column("network_type", sa.String(16), nullable=False),
    sa.Column("physical_network", sa.String(64), nullable=False),  # "": a tunnel
    sa.Column("segmentation_id", sa.Integer, nullable=False),  # 0: flat
    sa.UniqueConstraint("network_type", "physical_network", "segmentation_id", name="segment_is_given_out_once"),
    sa.CheckConstraint("network_type IN ('flat', 'vlan', 'vxlan')", name="segment_type"),
    sa.Index("segments_by_network", "network_id"),
)

subnets = _record(
    "subnets",
    _part_of("network_id", "networks"),
    sa.Column("ip_version", sa.Integer, nullable=False),
    sa.Column("cidr", sa.String(64), nullable=False),
    sa.Column("gateway_ip", sa.String(64)),
    sa.Column("enable_dhcp", sa.Boolean, nullable=False),
    sa.Column("pools", sa.JSON, nullable=False),
    sa.Column("dns_nameservers", sa.JSON, nullable=False),
    sa.Column("host_routes", sa.JSON, nullable=False),
    sa.Column("ipv6_address_mode", sa.String(16)),
    sa.Column("ipv6_ra_mode", sa.String(16)),
    sa.Column("segment_id", sa.ForeignKey("segments.id")),
    sa.Column("service_types", sa.JSON, nullable=False),
    sa.CheckConstraint("ip_version IN (4, 6)", name="ip_version"),
    sa.Index("subnets_by_network", "network_id"),
    sa.Index("subnets_by_segment", "segment_id"),
)

security_groups = _record(
    "security_groups",
    sa.Column("stateful", sa.Boolean, nullable=False),
    sa.Column("is_default", sa.Boolean, nullable=False),
    sa.Index("one_default_group", "project_id", unique=True, **where("is_default")),
)

security_group_rules = _record(
    "security_group_rules",
    _part_of("security_group_id", "security_groups"),
    sa.Column("direction", sa.String(16), nullable=False),
    sa.Column("ethertype", sa.String(8), nullable=False),
    sa.Column("protocol", sa.String(40)),
    sa.Column("port_range_min", sa.Integer),
    sa.Column("port_range_max", sa.Integer),
    sa.Column("remote_ip_prefix", sa.String(64)),
    sa.Column("remote_group_id", sa.ForeignKey("security_groups.id", ondelete="CASCADE")),
    sa.Index("security_group_rules_by_group", "security_group_id"),
    sa.Index("security_group_rules_by_remote_group", "remote_group_id"),
)

ports = _record(
    "ports",
    sa.Column("network_id", sa.ForeignKey("networks.id"), nullable=False),
    sa.Column("mac_address", sa.String(32), nullable=False),
    sa.Column("admin_state_up", sa.Boolean, nullable=False),
    sa.Column("device_id", sa.String(255), nullable=False),
    sa.Column("device_owner", sa.String(255), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("vnic_type", sa.String(64), nullable=False),
    sa.Column("profile", sa.JSON, nullable=False),
    sa.Column("port_security_enabled", sa.Boolean, nullable=False),
    sa.Column("qos_policy_id", sa.ForeignKey("qos_policies.id")),
    sa.Column("allowed_address_pairs", sa.JSON, nullable=False),
    sa.UniqueConstraint("network_id", "mac_address", name="mac_is_there_once"),
    sa.CheckConstraint("status IN ('ACTIVE', 'DOWN')", name="port_status"),
    sa.Index("ports_by_device", "device_id"),
    sa.Index("ports_by_qos_policy", "qos_policy_id"),
)

fixed_ips = sa.Table(
    "fixed_ips",
    metadata,
    sa.Column("network_id", sa.String(36), primary_key=True),
    sa.Column("ip_address", sa.String(64), primary_key=True),
    sa.Column("subnet_id", sa.ForeignKey("subnets.id"), nullable=False),
    _part_of("port_id", "ports"),
    sa.Column("place", sa.Integer, nullable=False),  # index among the port's addresses
    sa.Index("fixed_ips_by_port", "port_id"),
    sa.Index("fixed_ips_by_subnet", "subnet_id"),
    sqlite_with_rowid=False,
)

port_security_groups = sa.Table(
    "port_security_groups",
    metadata,
    sa.Column("port_id", sa.ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("security_group_id", sa.ForeignKey("security_groups.id"), primary_key=True),
    sa.Index("port_security_groups_by_group", "security_group_id"),
    sqlite_with_rowid=False,
)

bindings = sa.Table(
    "port_bindings",
    metadata,
    sa.Column("port_id", sa.ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("vnic_type", sa.String(64), nullable=False),
    sa.Column("vif_type", sa.String(64), nullable=False),
    sa.Column("vif_details", sa.JSON, nullable=False),
    sa.Column("profile", sa.JSON, nullable=False),
    sa.Index("one_active_binding", "port_id", unique=True, **where("active")),
    sa.Index("port_bindings_by_host", "host"),
    sqlite_with_rowid=False,
)

routers = _record(
    "routers",
    sa.Column("admin_state_up", sa.Boolean, nullable=False),
    sa.Column("enable_snat", sa.Boolean, nullable=False),
    sa.Column("routes", sa.JSON, nullable=False),
)

floating_ips = _record(
    "floating_ips",
    sa.Column("floating_network_id", sa.ForeignKey("networks.id"), nullable=False),
    sa.Column("floating_port_id", sa.ForeignKey("ports.id", ondelete="CASCADE"), nullable=False, unique=True),
    sa.Column("floating_ip_address", sa.String(64), nullable=False),
    sa.Column("fixed_port_id", sa.ForeignKey("ports.id", ondelete="SET NULL")),
    sa.Column("fixed_ip_address", sa.String(64)),
    sa.Column("router_id", sa.ForeignKey("routers.id", ondelete="SET NULL")),
    sa.UniqueConstraint("floating_network_id", "fixed_port_id", "fixed_ip_address", name="one_floating_ip_of_network"),
    sa.Index("floating_ips_by_fixed_port", "fixed_port_id"),
    sa.Index("floating_ips_by_router", "router_id"),
)

quotas = sa.Table(
    "quotas",
    metadata,
    sa.Column("project_id", sa.String(255), primary_key=True),
    sa.Column("resource", sa.String(64), primary_key=True),
    sa.Column("most", sa.Integer, nullable=False),  # -1: unlimited
    sqlite_with_rowid=False,
)

agents = sa.Table(
    "agents",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("admin_state_up", sa.Boolean, nullable=False),
    sa.Column("description", sa.String(255)),
)

# Tags of records of all kinds: ids are unique across kinds, so there is no column for the kind.
tags = sa.Table(
    "tags",
    metadata,
    sa.Column("record_id", sa.String(36), primary_key=True),
    sa.Column("tag", sa.String(255), primary_key=True),
    sa.Index("tags_by_tag", "tag"),
    sqlite_with_rowid=False,
)
