"""What the volume service asks of the compute service: whether a server uses an attachment."""

from typing import Protocol

from whimbrel.domain.ids import ServerId


class VolumeUsers(Protocol):
    async def uses(self, server: ServerId, attachment_id: str) -> bool:
        """Check whether a server has a volume by this attachment, or may get it. Raises: Unavailable."""
        ...


class AnyServer:
    """Fulfils VolumeUsers where nothing is known of servers: each may use what names it."""

    async def uses(self, server: ServerId, attachment_id: str) -> bool:
        return True
