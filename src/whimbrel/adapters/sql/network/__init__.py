"""The embedded network service's records in a database."""

from whimbrel.adapters.sql.network.store import SqlNetworks

__all__ = ["SqlNetworks"]
