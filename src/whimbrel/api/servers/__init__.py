"""Servers and their parts: actions, interfaces, volumes, metadata, lists."""
