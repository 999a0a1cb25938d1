"""The tables of OpenStack Placement's own database, with the columns that are copied.

Source: openstack/placement, placement/db/sqlalchemy/models.py; the same from 2023.1 to 16.0 (2026.2).
"""

import sqlalchemy as sa

KNOWN_VERSIONS = ("422ece571366", "a082b8bb98d0")
"""The versions of its schema, by Alembic's revisions: since consumer types; without redundant indexes."""

FIRST_CUSTOM_CLASS = 10_000
"""Standard resource classes have their position in os-resource-classes as id, custom ones begin here."""

metadata = sa.MetaData()


def written() -> tuple[sa.Column[object], ...]:
    """Return the columns of the times at which OpenStack wrote a row."""
    return sa.Column("created_at", sa.DateTime), sa.Column("updated_at", sa.DateTime)


def _numbered(name: str, *columns: sa.schema.SchemaItem) -> sa.Table:
    return sa.Table(name, metadata, *written(), sa.Column("id", sa.Integer, primary_key=True), *columns)


def _names(name: str, column: str = "name", length: int = 255) -> sa.Table:
    return _numbered(name, sa.Column(column, sa.String(length), unique=True))


alembic_version = sa.Table("alembic_version", metadata, sa.Column("version_num", sa.String(32), primary_key=True))

resource_classes = _names("resource_classes")
traits = _names("traits")
aggregates = _names("placement_aggregates", "uuid", 36)
projects = _names("projects", "external_id")
users = _names("users", "external_id")
consumer_types = _names("consumer_types")

providers = _numbered(
    "resource_providers",
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("name", sa.String(200), unique=True),
    sa.Column("generation", sa.Integer),
    sa.Column("root_provider_id", sa.ForeignKey("resource_providers.id")),
    sa.Column("parent_provider_id", sa.ForeignKey("resource_providers.id")),
)

inventories = _numbered(
    "inventories",
    sa.Column("resource_provider_id", sa.Integer, nullable=False),
    sa.Column("resource_class_id", sa.Integer, nullable=False),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("reserved", sa.Integer, nullable=False),
    sa.Column("min_unit", sa.Integer, nullable=False),
    sa.Column("max_unit", sa.Integer, nullable=False),
    sa.Column("step_size", sa.Integer, nullable=False),
    sa.Column("allocation_ratio", sa.Float, nullable=False),
    sa.UniqueConstraint("resource_provider_id", "resource_class_id"),
)

provider_traits = sa.Table(
    "resource_provider_traits",
    metadata,
    *written(),
    sa.Column("trait_id", sa.ForeignKey("traits.id"), primary_key=True),
    sa.Column("resource_provider_id", sa.ForeignKey("resource_providers.id"), primary_key=True),
)

provider_aggregates = sa.Table(
    "resource_provider_aggregates",
    metadata,
    *written(),
    sa.Column("resource_provider_id", sa.Integer, primary_key=True),
    sa.Column("aggregate_id", sa.Integer, primary_key=True),
)

consumers = _numbered(
    "consumers",
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("project_id", sa.Integer, nullable=False),
    sa.Column("user_id", sa.Integer, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("consumer_type_id", sa.ForeignKey("consumer_types.id")),
)

allocations = _numbered(
    "allocations",
    sa.Column("resource_provider_id", sa.Integer, nullable=False),
    sa.Column("consumer_id", sa.String(36), nullable=False),
    sa.Column("resource_class_id", sa.Integer, nullable=False),
    sa.Column("used", sa.Integer, nullable=False),
)
