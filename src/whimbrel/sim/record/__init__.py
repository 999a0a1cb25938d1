"""The events of a simulated cloud: a trace, and counts."""
