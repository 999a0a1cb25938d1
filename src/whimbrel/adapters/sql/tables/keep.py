"""The one table of a keep: what agents and simulated hosts must remember."""

import sqlalchemy as sa

metadata = sa.MetaData()

kept = sa.Table(
    "kept",
    metadata,
    sa.Column("space", sa.String(255), primary_key=True),
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)
