"""Faults of a simulated cloud, and their schedule."""
