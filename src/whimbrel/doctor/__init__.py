"""The doctor: checks the records of a running Nova and its Placement for what Nova itself does not repair."""
