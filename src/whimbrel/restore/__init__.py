"""Restored databases: detect that one is older than what was carried out, and make the cloud consistent again."""
