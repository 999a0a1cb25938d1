"""Databases: connections, transactions, statements, schemas. Knows no table."""
