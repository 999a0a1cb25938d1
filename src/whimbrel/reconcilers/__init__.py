"""Reconcilers: each round reads the current state anew and keeps no memory."""
