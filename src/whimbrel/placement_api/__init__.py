"""The Placement API: HTTP in front of a placement store, as OpenStack's clients know it."""
