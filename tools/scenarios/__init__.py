"""Scenarios of moves under planned faults: the fault map, the story tests and the mutants share them."""
