"""Requirements of flavors, images and requests."""
