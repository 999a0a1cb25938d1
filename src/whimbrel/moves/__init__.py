"""Moves: one file is one story, told as a line of steps."""
