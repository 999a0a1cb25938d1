"""What a host can do with images that others serve: by its grants and the relay, before every kind of image service."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.contracts.databases import postgres, tables
from tests.contracts.test_images import CONTENTS, QCOW2, UNSAFE, Around, around, boot_sector, sent
from tests.embedded.test_image_grants import H1, SECRET, Granting
from whimbrel.adapters.libvirt.image_cache import ImageCache
from whimbrel.adapters.openstack.granted_images import GrantedImages
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.image_grant import ImageAccess
from whimbrel.embedded.image.relay import relay_app
from whimbrel.ports.services.images import Images
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.images import MemoryImages

__all__ = ["around", "postgres", "tables"]  # fixtures


@dataclass
class RelayedHost:
    """A host with grants, and its cache of images."""

    images: GrantedImages
    granting: Granting
    cache: ImageCache

    def grant(self, image_id: str, access: ImageAccess) -> None:
        self.granting.allowed.add((image_id, access))


def relayed_host(service: Images, directory: Path) -> RelayedHost:
    granting = Granting(JumpingClock())
    transport = httpx.ASGITransport(relay_app(service, granting.clock, SECRET))
    images = GrantedImages(H1, granting, transport=transport)
    return RelayedHost(images, granting, ImageCache(directory, images, None))


@pytest.fixture
def host(around: Around, tmp_path: Path) -> RelayedHost:
    return relayed_host(around.images, tmp_path / "cache")


async def test_a_host_stores_a_snapshot_and_reads_an_image(around: Around, host: RelayedHost) -> None:
    """In one piece: the relay sends parts that the service takes."""
    image_id = await around.created()
    host.grant(image_id, "write")
    for _ in range(2):  # it is active: no effect
        await host.images.write(image_id, sent(CONTENTS))
    assert await around.contents(image_id) == CONTENTS
    host.grant(image_id, "read")
    path, disk_format = await host.cache.fetch(image_id)
    assert (path.read_bytes(), disk_format) == (CONTENTS, "raw")


async def test_an_empty_image_is_read(around: Around, host: RelayedHost) -> None:
    image_id = await around.created()
    await around.images.write(image_id, sent())
    host.grant(image_id, "read")
    path, _ = await host.cache.fetch(image_id)
    assert path.read_bytes() == b""


async def test_a_host_learns_of_an_image_only_what_it_needs(around: Around, host: RelayedHost) -> None:
    image_id = await around.created(disk_format="qcow2")
    await around.images.write(image_id, sent(QCOW2))
    host.grant(image_id, "read")
    shown = await host.images.show(image_id)
    assert (shown.status, shown.disk_format, shown.size_bytes) == ("active", "qcow2", len(QCOW2))
    assert (shown.properties, shown.owner) == ({}, None)
    assert shown.checksum == (await around.images.show(image_id)).checksum


async def test_an_image_without_a_file_cannot_be_read(around: Around, host: RelayedHost) -> None:
    image_id = await around.created()
    host.grant(image_id, "read")
    with pytest.raises(NotFound):
        await host.cache.fetch(image_id)


async def test_the_refusal_of_a_file_reaches_the_host(around: Around, host: RelayedHost) -> None:
    image_id = await around.created()
    host.grant(image_id, "write")
    with pytest.raises(Refused, match=UNSAFE):
        await host.images.write(image_id, sent(boot_sector()))


async def test_an_upload_that_breaks_off_makes_no_image(around: Around, host: RelayedHost) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield CONTENTS
        raise Unavailable("the host is gone")

    image_id = await around.created()
    host.grant(image_id, "write")
    with pytest.raises(Unavailable):
        await host.images.write(image_id, broken())
    assert (await around.images.show(image_id)).status != "active"


class FailingImages(MemoryImages):
    """An image service that sends a part of a file, and then something else."""

    def __init__(self, rest: bytes | None) -> None:
        """rest: None: the connection breaks."""
        super().__init__({"image": CONTENTS})
        self._rest = rest

    async def read(self, image_id: str) -> AsyncIterator[bytes]:
        yield CONTENTS[:1000]
        if self._rest is None:
            raise Unavailable("the connection is broken")
        yield self._rest


@pytest.mark.parametrize("rest", [None, b"", CONTENTS[:-1000][::-1]], ids=["broken", "short", "damaged"])
async def test_a_host_keeps_no_part_of_an_image(rest: bytes | None, tmp_path: Path) -> None:
    host = relayed_host(FailingImages(rest), tmp_path)
    host.grant("image", "read")
    with pytest.raises(Unavailable):
        await host.cache.fetch("image")
    assert not os.listdir(tmp_path)
