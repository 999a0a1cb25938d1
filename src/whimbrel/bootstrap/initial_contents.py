"""The initial contents of a new cloud: accounts, flavors, a network and an image, so that a first server can be booted.

Invariant: each part is made once; what users or operators removed later stays removed.
"""

from collections.abc import Callable

from whimbrel.bootstrap.first_flavors import write_down_flavors
from whimbrel.bootstrap.process import Process
from whimbrel.embedded import tick_guest
from whimbrel.embedded.identity.initial_accounts import Passwords, bootstrap
from whimbrel.embedded.image.in_process import seed_id, seed_image
from whimbrel.ports.services.identity import Population
from whimbrel.ports.services.images import Image

IMAGE_NAME = "tick"
DEMO_PROJECT = "demo"


async def create_first_accounts(process: Process, write_down: Callable[[Passwords], None]) -> Passwords | None:
    """Create users and a network in a new cloud, and return the passwords; None: it has users already.

    write_down: stores the passwords for their users.
    """

    async def seed_network(population: Population) -> None:
        [demo] = [project.id for project in population.projects if project.name == DEMO_PROJECT]
        await process.network_service.seed(demo)

    await write_down_flavors(process.cloud)
    # Last, because it marks the cloud as no longer new.
    return await bootstrap(process.accounts, process.cloud.ids, write_down=write_down, prepare=seed_network)


async def create_first_image(process: Process) -> None:
    """Ensure that the initial image exists. Raises: Unavailable: the image service does not answer."""
    image = Image(
        id=seed_id(IMAGE_NAME),
        name=IMAGE_NAME,
        status="queued",
        disk_format="raw",
        size_bytes=0,
        checksum=None,
        visibility="public",
    )
    await seed_image(process.cloud.images, image, tick_guest.image())
