"""Shared by all handlers of the compute API: the request, errors, schemas, microversions, documents."""
