"""Domain values, states and errors. The lowest layer: it imports nothing else of Whimbrel."""
