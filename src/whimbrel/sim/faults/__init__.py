"""What goes wrong in a simulated cloud, and when."""
