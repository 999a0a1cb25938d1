"""Hosts and their resources: hypervisors, services, zones, aggregates, migrations."""
