"""Release what late requests left in the network and volume services."""
