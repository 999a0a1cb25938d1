"""What a server needs of a host."""
