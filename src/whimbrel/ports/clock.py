"""Time and ids come in by the door, so that a whole cloud can run under a simulated clock and one seed."""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Give the time: seconds since 1970, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class IdSource(Protocol):
    def uuid(self) -> str:
        """Give a new random uuid, with dashes."""
        ...
