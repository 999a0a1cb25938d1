"""Every contract suite has the databases."""

from tests.contracts.databases import open_store, postgres, tables

__all__ = ["open_store", "postgres", "tables"]
