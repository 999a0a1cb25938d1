"""The fault map: every fault at every step of every kind of move, and its outcome. `make faultmap` draws it.

Invariant: a point counts only if its fault fired; accounting and invariants judge its outcome, it is never assumed.
"""
