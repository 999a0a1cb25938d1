"""Copies all of Placement's contents between Whimbrel's tables and those of OpenStack Placement, and compares them."""
