"""Scenarios of moves under planned faults, shared by the fault map, the story tests and the mutants."""
