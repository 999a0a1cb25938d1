"""The stores of the global database."""
