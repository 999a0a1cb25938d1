"""How old a message is, by clocks that are not set: those that count since the start of each machine.

Nothing is known of how far the clocks of two machines are apart, and the time of day may be wrong by an hour. But the
difference of two such clocks is constant, and a message never arrives before it was sent. So the least difference
between arrival and sending that was ever seen of one sender stands for a message without delay, and what a message
exceeds it by is its age. Relied upon: the clocks run at the same rate, within DRIFT. The first message of a sender
counts as new: nothing on the bus waits for a receiver that is not connected, and fences refuse what is outdated anyway.
"""

from collections.abc import Callable

from whimbrel.adapters.clock import since_boot

DRIFT = 0.001
"""By how much the rates of two machines' clocks may differ. Good ones differ by a tenth of that at most."""

SENDERS = 1000
"""How many senders are remembered."""


class MessageAges:
    def __init__(self, clock: Callable[[], float] = since_boot) -> None:
        self._clock = clock
        self._least: dict[str, tuple[float, float]] = {}  # sender -> least difference, and when it was seen

    def age_s(self, sender: str, sent_at: float) -> float:
        """Return how old a message is that arrives now. sent_at: by the clock of the sender."""
        now = self._clock()
        difference = now - sent_at
        least, seen_at = self._least.pop(sender, (difference, now))
        least = min(least + DRIFT * (now - seen_at), difference)
        self._least[sender] = (least, now)
        if len(self._least) > SENDERS:
            del self._least[next(iter(self._least))]
        return difference - least
