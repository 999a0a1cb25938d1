"""The steps of moves, by the object that they change. Each keeps the invariants in saga.step."""
