"""Reconcilers look at the world afresh each time and keep no memory."""
