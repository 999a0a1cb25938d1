"""Reads the databases of Nova and of OpenStack Placement for the doctor; nothing is written."""
