"""Create, delete, change, start and stop servers, and create images of them."""
