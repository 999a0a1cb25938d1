"""The Placement API: HTTP in front of a placement store, compatible with OpenStack's clients."""
