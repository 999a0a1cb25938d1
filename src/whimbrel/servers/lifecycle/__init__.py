"""Create, delete, change, start and stop servers, and take images of them."""
