"""Placement as moves and the scheduler use it."""
