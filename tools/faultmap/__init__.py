"""The fault map: every fault at every step of every kind of move, and what came of it. `make faultmap` draws it.

Law: a point counts only where its fault fired, and its outcome is judged by the books and the laws, never assumed.
"""
