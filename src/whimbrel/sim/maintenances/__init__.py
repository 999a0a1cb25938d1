"""Simulations of maintenances: a copy of a cloud, on simulated hosts, executes their plans."""
