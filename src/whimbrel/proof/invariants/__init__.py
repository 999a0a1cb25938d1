"""The laws, each a function from what was read to what does not hold; table.py has them in words, by their numbers."""
