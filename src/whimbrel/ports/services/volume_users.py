"""The volume service's query to the compute service: whether a server uses an attachment."""

from typing import Protocol

from whimbrel.domain.ids import ServerId


class VolumeUsers(Protocol):
    async def uses(self, server: ServerId, attachment_id: str) -> bool:
        """Check whether a server uses a volume through this attachment, or may. Raises: Unavailable."""


class AnyServer:
    """Implements VolumeUsers without knowledge of servers: every attachment counts as used by its server."""

    async def uses(self, server: ServerId, attachment_id: str) -> bool:
        return True
