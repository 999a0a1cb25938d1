"""Placement: resource providers, what they have, and who holds how much of it. Words, rules and pure searches."""
