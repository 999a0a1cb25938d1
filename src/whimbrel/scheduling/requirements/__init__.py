"""What flavors, images and requests require of a host."""
