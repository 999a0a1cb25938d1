"""The stores of a cell's database."""
