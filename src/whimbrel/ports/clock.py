"""Time and ids are parameters, so that a whole cloud can run with a simulated clock and one seed."""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Return the time: seconds since 1970, UTC."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class IdSource(Protocol):
    def uuid(self) -> str:
        """Return a new random uuid, with dashes."""
