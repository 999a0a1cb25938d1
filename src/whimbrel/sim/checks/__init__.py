"""Invariants of a simulated cloud, and when they are checked."""
