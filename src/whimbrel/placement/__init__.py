"""Placement: resource providers, their inventories, and claims on them. Terms, rules and pure searches."""
