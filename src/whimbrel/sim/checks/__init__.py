"""What must hold of a simulated cloud, and when it is checked."""
