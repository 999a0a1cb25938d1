"""List the servers of all cells."""
