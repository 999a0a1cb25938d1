"""Volumes of a storage network by os-brick, in a program of its own: it blocks, and it needs root."""
