"""What all handlers of the compute API share: the request, errors, schemas, microversions, documents."""
