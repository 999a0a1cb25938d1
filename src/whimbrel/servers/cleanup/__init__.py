"""Release what stale requests left in the network and volume services."""
