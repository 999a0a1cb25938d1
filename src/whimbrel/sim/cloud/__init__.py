"""A cloud in one process: its control plane, its users, and its initial state."""
