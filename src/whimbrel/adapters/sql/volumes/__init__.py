"""The embedded volume service's records in a database. The files lie beside it, named by the ids."""

from whimbrel.adapters.sql.volumes.store import SqlVolumes

__all__ = ["SqlVolumes"]
