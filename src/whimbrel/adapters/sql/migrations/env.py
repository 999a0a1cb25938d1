"""Alembic's environment: runs each command on the connection, and in the transaction, passed to `config_of`."""

from alembic import context

from whimbrel.adapters.sql.tables import metadata_of

attributes = context.config.attributes
context.configure(connection=attributes["connection"], target_metadata=metadata_of(attributes["kind"]))
context.run_migrations()
