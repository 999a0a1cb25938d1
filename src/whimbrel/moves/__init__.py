"""Moves: each kind is one saga in one file."""
