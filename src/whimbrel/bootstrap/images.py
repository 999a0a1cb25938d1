"""Creates the image service of a process: the embedded one with its files, a client of one over HTTP, or a relay."""

from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from whimbrel.adapters.openstack.images import HttpImages
from whimbrel.adapters.sql.image_store import SqlImages
from whimbrel.bootstrap.process_base import ProcessBase
from whimbrel.bootstrap.service_login import ServiceClients
from whimbrel.embedded.image.file_store import FileStore
from whimbrel.embedded.image.relay import relay_app
from whimbrel.embedded.image.service import ImageService
from whimbrel.embedded.image.storage_limit import Allowance
from whimbrel.ports.clock import Clock

if TYPE_CHECKING:
    from whimbrel.bootstrap.external_services import ExternalServices

TIMEOUT_S = 60.0
IMAGE_RELAY = "image_relay"
"""The path of the relay."""


def embedded_images(base: ProcessBase) -> ImageService:
    """Create the service of the data directory's files."""
    config, store = base.start.config, SqlImages(base.database("images"))
    files = FileStore(base.start.home.images, config.storage.reserved_bytes)
    return ImageService(store, files, base.clock, Allowance(store, config.images.limits))


async def distant_images(clients: ServiceClients, external: "ExternalServices | None" = None) -> HttpImages:
    """Return the client of another process's service, or of one that others run."""
    if external and "image" in external.names:
        return HttpImages(external.http("image"))
    return HttpImages(await clients.http("image", TIMEOUT_S))


def image_relay(external: "ExternalServices | None", clock: Clock, secret: bytes) -> dict[str, ASGIApp]:
    """Return the relay by its path, if others run the image service. secret: of the grants of hosts."""
    if external is None or "image" not in external.names:
        return {}
    return {IMAGE_RELAY: relay_app(external.relayed_images(), clock, secret)}
