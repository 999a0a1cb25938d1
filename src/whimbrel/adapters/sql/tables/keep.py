"""The one table of a key-value store: what agents and simulated hosts must persist."""

import sqlalchemy as sa

metadata = sa.MetaData()

kept = sa.Table(
    "kept",
    metadata,
    sa.Column("space", sa.String(255), primary_key=True),
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)
