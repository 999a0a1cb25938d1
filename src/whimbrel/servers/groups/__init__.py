"""Move the members of a server group together."""
