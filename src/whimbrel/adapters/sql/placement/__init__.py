"""Placement in a database: which consumer holds how much of which provider."""

from whimbrel.adapters.sql.placement.store import SqlPlacement

__all__ = ["SqlPlacement"]
