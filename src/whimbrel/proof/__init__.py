"""Proof: the invariants of a cloud as pure functions of evidence, and the code that reads a running cloud."""
