"""Tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "consumers",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=255), nullable=True),
        sa.CheckConstraint("generation >= 0", name="consumers_generation"),
        sa.PrimaryKeyConstraint("uuid"),
    )
    op.create_index("consumers_by_project", "consumers", ["project", "user"], unique=False)
    op.create_table(
        "fences",
        sa.Column("run", sa.String(length=36), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.CheckConstraint("epoch >= 1", name="fences_epoch"),
        sa.PrimaryKeyConstraint("run"),
    )
    op.create_table(
        "providers",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("parent", sa.String(length=36), nullable=True),
        sa.Column("root", sa.String(length=36), nullable=False),
        sa.CheckConstraint("(parent IS NULL) = (root = uuid)", name="providers_root_has_no_parent"),
        sa.CheckConstraint("generation >= 0", name="providers_generation"),
        sa.CheckConstraint("parent <> uuid", name="providers_own_parent"),
        sa.ForeignKeyConstraint(["parent"], ["providers.uuid"], name="providers_parent_is_there"),
        sa.ForeignKeyConstraint(["root"], ["providers.uuid"], name="providers_root_is_there"),
        sa.PrimaryKeyConstraint("uuid"),
        sa.UniqueConstraint("name", name="providers_name"),
    )
    op.create_index(op.f("ix_providers_parent"), "providers", ["parent"], unique=False)
    op.create_index(op.f("ix_providers_root"), "providers", ["root"], unique=False)
    op.create_table(
        "resource_classes", sa.Column("name", sa.String(length=255), nullable=False), sa.PrimaryKeyConstraint("name")
    )
    op.create_table("traits", sa.Column("name", sa.String(length=255), nullable=False), sa.PrimaryKeyConstraint("name"))
    op.create_table(
        "inventories",
        sa.Column("provider", sa.String(length=36), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("reserved", sa.Integer(), nullable=False),
        sa.Column("min_unit", sa.Integer(), nullable=False),
        sa.Column("max_unit", sa.Integer(), nullable=False),
        sa.Column("step_size", sa.Integer(), nullable=False),
        sa.Column("allocation_ratio", sa.Double(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("allocation_ratio >= 0", name="inventories_ratio"),
        sa.CheckConstraint("min_unit >= 1 AND max_unit >= 1 AND step_size >= 1", name="inventories_units"),
        sa.CheckConstraint("total >= 1 AND reserved >= 0 AND reserved <= total", name="inventories_amounts"),
        sa.CheckConstraint("used >= 0", name="inventories_used"),
        sa.ForeignKeyConstraint(["provider"], ["providers.uuid"], name="inventories_provider"),
        sa.ForeignKeyConstraint(
            ["resource_class"], ["resource_classes.name"], name="inventories_class", onupdate="CASCADE"
        ),
        sa.PrimaryKeyConstraint("provider", "resource_class"),
    )
    op.create_index("inventories_by_class", "inventories", ["resource_class"], unique=False)
    op.create_table(
        "provider_aggregates",
        sa.Column("provider", sa.String(length=36), nullable=False),
        sa.Column("aggregate", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(["provider"], ["providers.uuid"], name="provider_aggregates_provider"),
        sa.PrimaryKeyConstraint("provider", "aggregate"),
    )
    op.create_index("provider_aggregates_by_aggregate", "provider_aggregates", ["aggregate"], unique=False)
    op.create_table(
        "provider_traits",
        sa.Column("provider", sa.String(length=36), nullable=False),
        sa.Column("trait", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["provider"], ["providers.uuid"], name="provider_traits_provider"),
        sa.ForeignKeyConstraint(["trait"], ["traits.name"], name="provider_traits_trait"),
        sa.PrimaryKeyConstraint("provider", "trait"),
    )
    op.create_index("provider_traits_by_trait", "provider_traits", ["trait"], unique=False)
    op.create_table(
        "allocations",
        sa.Column("consumer", sa.String(length=36), nullable=False),
        sa.Column("provider", sa.String(length=36), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("amount", sa.Integer(), nullable=False),
        sa.CheckConstraint("amount >= 1", name="allocations_amount"),
        sa.ForeignKeyConstraint(["consumer"], ["consumers.uuid"], name="allocations_consumer"),
        sa.ForeignKeyConstraint(
            ["provider", "resource_class"],
            ["inventories.provider", "inventories.resource_class"],
            name="allocations_inventory",
            onupdate="CASCADE",
        ),
        sa.PrimaryKeyConstraint("consumer", "provider", "resource_class"),
    )
    op.create_index("allocations_by_provider", "allocations", ["provider", "resource_class"], unique=False)
