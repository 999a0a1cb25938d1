"""What happened to a server, and its state at a time in the past."""
