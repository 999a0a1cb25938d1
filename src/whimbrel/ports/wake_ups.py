"""Wake-ups between the processes of a cloud. They only shorten polls: any of them may be lost or come twice."""

from collections.abc import Callable
from typing import Final, Literal, Protocol

Topic = Literal["conductors", "fleet", "placement"]
"""Runs are due; hosts have changed; the provider index has changed."""

TO_ONE: Final[tuple[Topic, ...]] = ("conductors",)
"""Topics whose wake-ups reach one of the listening processes each: one conductor suffices to take a run."""


class WakeUps(Protocol):
    @property
    def is_connected(self) -> bool:
        """Check whether wake-ups of other processes arrive at present. If not, poll as often as without them."""

    def wake(self, topic: Topic) -> None:
        """Wake the processes that listen; returns at once and never fails."""

    def listen(self, topic: Topic, listener: Callable[[], None]) -> None:
        """Call `listener` at each wake-up by another process; see TO_ONE. It takes effect soon."""


class NoWakeUps:
    """Implements WakeUps for a process without a bus."""

    @property
    def is_connected(self) -> bool:
        return False

    def wake(self, topic: Topic) -> None: ...

    def listen(self, topic: Topic, listener: Callable[[], None]) -> None: ...
