"""Scheduling: a pure function from a snapshot to ordered choices and the reasons."""
