"""Make the allocations of a server match its flavor and ports."""
