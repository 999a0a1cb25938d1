"""What Alembic runs for each command: works on the connection and in the transaction that `config_of` was given."""

from alembic import context

from whimbrel.adapters.sql.tables import metadata_of

attributes = context.config.attributes
context.configure(connection=attributes["connection"], target_metadata=metadata_of(attributes["kind"]))
context.run_migrations()
