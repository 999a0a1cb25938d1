"""Restored databases: noticing that one is behind what was carried out, and making the cloud agree again."""
