"""What happened in a simulated cloud: a trace of events, and counts."""
