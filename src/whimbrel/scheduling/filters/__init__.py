"""Filters: which hosts are possible, and why another is not."""
