"""Tables of Placement: providers with their inventories, and the allocations.

Invariant: `inventories.used` is the sum of the allocations of that provider and class, written in the same transaction.
Standard classes and traits get a row on first use; custom ones on creation. Every change of a provider is logged in
`changes` in the same transaction: in-memory indexes read that table.
"""

import sqlalchemy as sa

metadata = sa.MetaData()

resource_classes = sa.Table(
    "resource_classes",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
)

traits = sa.Table(
    "traits",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
)

providers = sa.Table(
    "providers",
    metadata,
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("parent", sa.ForeignKey("providers.uuid", name="providers_parent_is_there"), index=True),
    sa.Column("root", sa.ForeignKey("providers.uuid", name="providers_root_is_there"), nullable=False, index=True),
    sa.UniqueConstraint("name", name="providers_name"),
    sa.CheckConstraint("generation >= 0", name="providers_generation"),
    sa.CheckConstraint("parent <> uuid", name="providers_own_parent"),
    sa.CheckConstraint("(parent IS NULL) = (root = uuid)", name="providers_root_has_no_parent"),
)

inventories = sa.Table(
    "inventories",
    metadata,
    sa.Column("provider", sa.ForeignKey("providers.uuid", name="inventories_provider"), primary_key=True),
    sa.Column(
        "resource_class",
        sa.ForeignKey("resource_classes.name", name="inventories_class", onupdate="CASCADE"),
        primary_key=True,
    ),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("reserved", sa.Integer, nullable=False),
    sa.Column("min_unit", sa.Integer, nullable=False),
    sa.Column("max_unit", sa.Integer, nullable=False),
    sa.Column("step_size", sa.Integer, nullable=False),
    sa.Column("allocation_ratio", sa.Double, nullable=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.CheckConstraint("total >= 1 AND reserved >= 0 AND reserved <= total", name="inventories_amounts"),
    sa.CheckConstraint("min_unit >= 1 AND max_unit >= 1 AND step_size >= 1", name="inventories_units"),
    sa.CheckConstraint("allocation_ratio >= 0", name="inventories_ratio"),
    sa.CheckConstraint("used >= 0", name="inventories_used"),
    sa.Index("inventories_by_class", "resource_class"),
)

provider_traits = sa.Table(
    "provider_traits",
    metadata,
    sa.Column("provider", sa.ForeignKey("providers.uuid", name="provider_traits_provider"), primary_key=True),
    sa.Column("trait", sa.ForeignKey("traits.name", name="provider_traits_trait"), primary_key=True),
    sa.Column(
        "offered", sa.Boolean, nullable=False, server_default=sa.false()
    ),  # by the host itself, not by an operator
    sa.Index("provider_traits_by_trait", "trait"),
)

provider_aggregates = sa.Table(
    "provider_aggregates",
    metadata,
    sa.Column("provider", sa.ForeignKey("providers.uuid", name="provider_aggregates_provider"), primary_key=True),
    sa.Column("aggregate", sa.String(36), primary_key=True),
    sa.Index("provider_aggregates_by_aggregate", "aggregate"),
)

consumers = sa.Table(
    "consumers",
    metadata,
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("project", sa.String(255), nullable=False),
    sa.Column("user", sa.String(255), nullable=False),
    sa.Column("type", sa.String(255)),  # NULL: made before consumers had types, shown as "unknown"
    sa.CheckConstraint("generation >= 0", name="consumers_generation"),
    sa.Index("consumers_by_project", "project", "user"),
)

allocations = sa.Table(
    "allocations",
    metadata,
    sa.Column("consumer", sa.ForeignKey("consumers.uuid", name="allocations_consumer"), primary_key=True),
    sa.Column("provider", sa.String(36), primary_key=True),
    sa.Column("resource_class", sa.String(255), primary_key=True),
    sa.Column("amount", sa.Integer, nullable=False),
    sa.ForeignKeyConstraint(
        ["provider", "resource_class"],
        ["inventories.provider", "inventories.resource_class"],
        name="allocations_inventory",
        onupdate="CASCADE",  # a custom class in use can be renamed
    ),
    sa.CheckConstraint("amount >= 1", name="allocations_amount"),
    sa.Index("allocations_by_provider", "provider", "resource_class"),
)

changes = sa.Table(
    "changes",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("provider", sa.String(36), nullable=False),  # may be deleted by now
    sa.Column(
        "xid", sa.BigInteger, nullable=False
    ),  # PostgreSQL's transaction id, valid in its own cluster; 0 on SQLite
    sa.Index("changes_by_xid", "xid"),  # for processes of earlier versions
    sqlite_autoincrement=True,
)

fences = sa.Table(
    "fences",
    metadata,
    sa.Column("run", sa.String(36), primary_key=True),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("progress", sa.Integer, nullable=False, server_default="0"),  # see domain.guest.Order
    sa.CheckConstraint("epoch >= 1", name="fences_epoch"),
)

# The following tables have no counterpart in Placement's API: hosts of server group members, and zones of hosts.

claimed_groups = sa.Table(
    "claimed_groups",  # locked by claims for servers of the group
    metadata,
    sa.Column("group_id", sa.String(36), primary_key=True),
    sa.Column("moving_to", sa.String(36)),  # a host's root provider
    sa.Column("moving_since", sa.Double),
    sa.CheckConstraint("(moving_to IS NULL) = (moving_since IS NULL)", name="claimed_groups_moving"),
)

group_places = sa.Table(
    "group_places",
    metadata,
    sa.Column("consumer", sa.String(36), primary_key=True),  # the server, or the run that holds its source
    sa.Column("group_id", sa.String(36), nullable=False, index=True),
    sa.Column("server", sa.String(36), nullable=False),
    sa.Column("root", sa.String(36), nullable=False),
)

host_zones = sa.Table(
    "host_zones",  # a host without a row has never changed its zone
    metadata,
    sa.Column("root", sa.ForeignKey("providers.uuid", name="host_zones_root_is_there"), primary_key=True),
    sa.Column("zone", sa.String(255), nullable=False),  # its id; empty: no aggregate assigns one
    sa.Column("version", sa.Integer, nullable=False),
)
