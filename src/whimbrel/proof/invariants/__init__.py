"""The invariants as functions from evidence to violations; table.py lists them in words, by number."""
