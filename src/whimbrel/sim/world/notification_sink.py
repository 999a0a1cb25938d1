"""A message broker in memory, which can be away."""

from whimbrel.domain.errors import Unavailable
from whimbrel.ports.services.notifications import Notification


class MemorySink:
    """Implements ports.services.notifications.NotificationSink."""

    def __init__(self) -> None:
        self.sent: list[Notification] = []
        self.is_away = False

    async def send(self, notification: Notification) -> None:
        if self.is_away:
            raise Unavailable("the broker is away")
        self.sent.append(notification)

    async def close(self) -> None:
        """Nothing is open."""
