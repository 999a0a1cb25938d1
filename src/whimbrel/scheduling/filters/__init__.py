"""Filters: which hosts are possible, and why the others are not."""
