"""Hosts and what is known of them: hypervisors, services, zones, aggregates, migrations."""
