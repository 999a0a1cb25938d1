"""Wake-ups of conductors by other processes. They only shorten polls: any of them may be lost or come twice."""

from collections.abc import Callable
from typing import Protocol


class WakeUps(Protocol):
    @property
    def is_connected(self) -> bool:
        """Check whether wake-ups of other processes arrive at present. If not, poll as often as without them."""

    def wake(self) -> None:
        """Wake one of the conductors that listen: runs are due. Returns at once and never fails."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` at each wake-up by another process that reaches this one. It takes effect soon."""


class NoWakeUps:
    """Implements WakeUps for a process without a bus."""

    @property
    def is_connected(self) -> bool:
        return False

    def wake(self) -> None: ...

    def listen(self, listener: Callable[[], None]) -> None: ...
