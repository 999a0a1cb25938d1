"""The flavors of a new cloud."""

from whimbrel.domain.flavor import Flavor
from whimbrel.ports.cloud import Cloud

FIRST_FLAVORS = (
    Flavor(flavor_id="1", name="m1.tiny", vcpus=1, memory_mib=512, root_gib=1),
    Flavor(flavor_id="2", name="m1.small", vcpus=1, memory_mib=2048, root_gib=20),
    Flavor(flavor_id="3", name="m1.medium", vcpus=2, memory_mib=4096, root_gib=40),
    Flavor(flavor_id="4", name="m1.large", vcpus=4, memory_mib=8192, root_gib=80),
)
"""The flavors of a new cloud."""


async def write_down_flavors(cloud: Cloud) -> None:
    if not await cloud.flavors.all():
        for flavor in FIRST_FLAVORS:
            await cloud.flavors.create(flavor, cloud.clock.now())
