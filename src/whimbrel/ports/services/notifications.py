"""Where notifications go: a message broker that other services of the cloud listen to."""

from typing import Any, Literal, Protocol

import msgspec


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """One notification, as consumers of Nova's notifications read them."""

    id: str  # of the message; the same when it is sent again
    event: str  # such as "instance.resize.start"
    publisher: str  # such as "nova-compute:h1"
    priority: Literal["INFO", "ERROR"]
    payload: dict[str, Any]  # a versioned object, unless the notification is unversioned
    at: float  # when it happened; seconds since 1970
    is_versioned: bool = True
    request_id: str | None = None
    user_id: str | None = None  # the requester
    project_id: str | None = None  # of the requester


class NotificationSink(Protocol):
    async def send(self, notification: Notification) -> None:
        """Hand a notification to the broker. Repeatable: consumers recognize a repeated message by its id.

        Returns when the broker has confirmed it. Raises: Unavailable: no confirmation; it may have been sent.
        """

    async def close(self) -> None: ...
