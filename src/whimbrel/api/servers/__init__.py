"""Servers and what belongs to one: actions, interfaces, volumes, metadata, lists."""
