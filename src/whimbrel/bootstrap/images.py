"""Creates the image service of a process: the embedded one with its files, or a client of it over HTTP."""

from whimbrel.adapters.openstack.images import HttpImages
from whimbrel.adapters.sql.image_store import SqlImages
from whimbrel.bootstrap.process_base import ProcessBase
from whimbrel.bootstrap.service_login import ServiceClients
from whimbrel.embedded.image.file_store import FileStore
from whimbrel.embedded.image.service import ImageService
from whimbrel.embedded.image.storage_limit import Allowance

TIMEOUT_S = 60.0


def embedded_images(base: ProcessBase) -> ImageService:
    """Create the service of the data directory's files."""
    config, store = base.start.config, SqlImages(base.database("images"))
    files = FileStore(base.start.home.images, config.storage.reserved_bytes)
    return ImageService(store, files, base.clock, Allowance(store, config.images.limits))


async def distant_images(clients: ServiceClients) -> HttpImages:
    """Return the client of another process's service."""
    return HttpImages(await clients.http("image", TIMEOUT_S))
