"""Proof: what must hold of a cloud, each law a pure function of what was read, and how a running cloud is read."""
