"""Whimbrel's own resources, below /v2.1/whimbrel."""
