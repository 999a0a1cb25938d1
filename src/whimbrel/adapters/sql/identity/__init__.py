"""The store of the embedded identity service."""
