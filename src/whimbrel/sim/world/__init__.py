"""The simulated world: hosts, services, clock and event loop."""
