"""Weighers: which of the possible hosts is the best."""
