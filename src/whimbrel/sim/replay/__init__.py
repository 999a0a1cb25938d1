"""Replay an exported move in a simulated cloud."""
