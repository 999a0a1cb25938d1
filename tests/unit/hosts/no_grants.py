"""A control plane whose hosts get no images."""

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import HostName
from whimbrel.domain.image_grant import ImageAccess
from whimbrel.ports.hosts.control_plane import ImageGrant


class NoGrants:
    """Implements hosts.control_plane_service.Grants."""

    async def grant(self, host: HostName, image_id: str, access: ImageAccess) -> ImageGrant:
        raise Refused("hosts get no images here")
