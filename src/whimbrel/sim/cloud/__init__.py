"""A cloud in one process: its control plane, its users, and the state it starts with."""
