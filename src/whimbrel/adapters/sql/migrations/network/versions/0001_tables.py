"""Tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "qos_policies",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("qos_policies_by_name", "qos_policies", ["name"], unique=False)
    op.create_index("qos_policies_by_project", "qos_policies", ["project_id"], unique=False)
    op.create_table(
        "security_groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("stateful", sa.Boolean(), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "one_default_group",
        "security_groups",
        ["project_id"],
        unique=True,
        sqlite_where=sa.text("is_default"),
        postgresql_where=sa.text("is_default"),
    )
    op.create_index("security_groups_by_name", "security_groups", ["name"], unique=False)
    op.create_index("security_groups_by_project", "security_groups", ["project_id"], unique=False)
    op.create_table(
        "tags",
        sa.Column("record_id", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("record_id", "tag"),
        sqlite_with_rowid=False,
    )
    op.create_index("tags_by_tag", "tags", ["tag"], unique=False)
    op.create_table(
        "networks",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("admin_state_up", sa.Boolean(), nullable=False),
        sa.Column("mtu", sa.Integer(), nullable=False),
        sa.Column("port_security_enabled", sa.Boolean(), nullable=False),
        sa.Column("qos_policy_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(
            ["qos_policy_id"],
            ["qos_policies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("networks_by_name", "networks", ["name"], unique=False)
    op.create_index("networks_by_project", "networks", ["project_id"], unique=False)
    op.create_index("networks_by_qos_policy", "networks", ["qos_policy_id"], unique=False)
    op.create_table(
        "qos_rules",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("policy_id", sa.String(length=36), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("direction", sa.String(length=16), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("burst_kbps", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount >= 0 AND burst_kbps >= 0", name="qos_amounts"),
        sa.ForeignKeyConstraint(["policy_id"], ["qos_policies.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("policy_id", "type", "direction", name="one_qos_rule_of_a_kind"),
    )
    op.create_index("qos_rules_by_name", "qos_rules", ["name"], unique=False)
    op.create_index("qos_rules_by_project", "qos_rules", ["project_id"], unique=False)
    op.create_table(
        "security_group_rules",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("security_group_id", sa.String(length=36), nullable=False),
        sa.Column("direction", sa.String(length=16), nullable=False),
        sa.Column("ethertype", sa.String(length=8), nullable=False),
        sa.Column("protocol", sa.String(length=40), nullable=True),
        sa.Column("port_range_min", sa.Integer(), nullable=True),
        sa.Column("port_range_max", sa.Integer(), nullable=True),
        sa.Column("remote_ip_prefix", sa.String(length=64), nullable=True),
        sa.Column("remote_group_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["remote_group_id"], ["security_groups.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["security_group_id"], ["security_groups.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("security_group_rules_by_group", "security_group_rules", ["security_group_id"], unique=False)
    op.create_index("security_group_rules_by_name", "security_group_rules", ["name"], unique=False)
    op.create_index("security_group_rules_by_project", "security_group_rules", ["project_id"], unique=False)
    op.create_index("security_group_rules_by_remote_group", "security_group_rules", ["remote_group_id"], unique=False)
    op.create_table(
        "ports",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.Column("mac_address", sa.String(length=32), nullable=False),
        sa.Column("admin_state_up", sa.Boolean(), nullable=False),
        sa.Column("device_id", sa.String(length=255), nullable=False),
        sa.Column("device_owner", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("vnic_type", sa.String(length=64), nullable=False),
        sa.Column("profile", sa.JSON(), nullable=False),
        sa.Column("port_security_enabled", sa.Boolean(), nullable=False),
        sa.Column("qos_policy_id", sa.String(length=36), nullable=True),
        sa.Column("allowed_address_pairs", sa.JSON(), nullable=False),
        sa.CheckConstraint("status IN ('ACTIVE', 'DOWN')", name="port_status"),
        sa.ForeignKeyConstraint(
            ["network_id"],
            ["networks.id"],
        ),
        sa.ForeignKeyConstraint(
            ["qos_policy_id"],
            ["qos_policies.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("network_id", "mac_address", name="mac_is_there_once"),
    )
    op.create_index("ports_by_device", "ports", ["device_id"], unique=False)
    op.create_index("ports_by_name", "ports", ["name"], unique=False)
    op.create_index("ports_by_project", "ports", ["project_id"], unique=False)
    op.create_index("ports_by_qos_policy", "ports", ["qos_policy_id"], unique=False)
    op.create_table(
        "segments",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.Column("network_type", sa.String(length=16), nullable=False),
        sa.Column("physical_network", sa.String(length=64), nullable=False),
        sa.Column("segmentation_id", sa.Integer(), nullable=False),
        sa.CheckConstraint("network_type IN ('flat', 'vlan', 'vxlan')", name="segment_type"),
        sa.ForeignKeyConstraint(["network_id"], ["networks.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("network_type", "physical_network", "segmentation_id", name="segment_is_given_out_once"),
    )
    op.create_index("segments_by_name", "segments", ["name"], unique=False)
    op.create_index("segments_by_network", "segments", ["network_id"], unique=False)
    op.create_index("segments_by_project", "segments", ["project_id"], unique=False)
    op.create_table(
        "port_bindings",
        sa.Column("port_id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("vnic_type", sa.String(length=64), nullable=False),
        sa.Column("vif_type", sa.String(length=64), nullable=False),
        sa.Column("vif_details", sa.JSON(), nullable=False),
        sa.Column("profile", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("port_id", "host"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "one_active_binding",
        "port_bindings",
        ["port_id"],
        unique=True,
        sqlite_where=sa.text("active"),
        postgresql_where=sa.text("active"),
    )
    op.create_index("port_bindings_by_host", "port_bindings", ["host"], unique=False)
    op.create_table(
        "port_security_groups",
        sa.Column("port_id", sa.String(length=36), nullable=False),
        sa.Column("security_group_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["security_group_id"],
            ["security_groups.id"],
        ),
        sa.PrimaryKeyConstraint("port_id", "security_group_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("port_security_groups_by_group", "port_security_groups", ["security_group_id"], unique=False)
    op.create_table(
        "subnets",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.Column("ip_version", sa.Integer(), nullable=False),
        sa.Column("cidr", sa.String(length=64), nullable=False),
        sa.Column("gateway_ip", sa.String(length=64), nullable=True),
        sa.Column("enable_dhcp", sa.Boolean(), nullable=False),
        sa.Column("pools", sa.JSON(), nullable=False),
        sa.Column("dns_nameservers", sa.JSON(), nullable=False),
        sa.Column("host_routes", sa.JSON(), nullable=False),
        sa.Column("ipv6_address_mode", sa.String(length=16), nullable=True),
        sa.Column("ipv6_ra_mode", sa.String(length=16), nullable=True),
        sa.Column("segment_id", sa.String(length=36), nullable=True),
        sa.Column("service_types", sa.JSON(), nullable=False),
        sa.CheckConstraint("ip_version IN (4, 6)", name="ip_version"),
        sa.ForeignKeyConstraint(["network_id"], ["networks.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["segment_id"],
            ["segments.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("subnets_by_name", "subnets", ["name"], unique=False)
    op.create_index("subnets_by_network", "subnets", ["network_id"], unique=False)
    op.create_index("subnets_by_project", "subnets", ["project_id"], unique=False)
    op.create_index("subnets_by_segment", "subnets", ["segment_id"], unique=False)
    op.create_table(
        "fixed_ips",
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.Column("ip_address", sa.String(length=64), nullable=False),
        sa.Column("subnet_id", sa.String(length=36), nullable=False),
        sa.Column("port_id", sa.String(length=36), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["subnet_id"],
            ["subnets.id"],
        ),
        sa.PrimaryKeyConstraint("network_id", "ip_address"),
        sqlite_with_rowid=False,
    )
    op.create_index("fixed_ips_by_port", "fixed_ips", ["port_id"], unique=False)
    op.create_index("fixed_ips_by_subnet", "fixed_ips", ["subnet_id"], unique=False)
