"""Databases: connections, transactions, statements, schemas. Contains no tables."""
