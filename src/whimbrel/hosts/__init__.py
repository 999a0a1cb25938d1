"""Hosts and their agents on other machines."""
