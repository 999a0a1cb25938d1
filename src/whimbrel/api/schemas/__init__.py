"""Schemas of requests, as data: one module per resource, `Body` and `Query` per URL, by microversion."""
