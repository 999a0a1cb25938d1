"""Reconcilers: each round reads the current state; nothing is kept between rounds."""
