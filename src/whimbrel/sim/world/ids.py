"""Ids from a seed: the same seed gives the same ids."""

from random import Random
from uuid import UUID


class SeededIds:
    """Implements ports.clock.IdSource."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)

    def uuid(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def copy(self) -> "SeededIds":
        """Return another source that continues with the same ids."""
        other = SeededIds(0)
        other._rng.setstate(self._rng.getstate())
        return other
