"""os-reimage: the content of a volume is replaced by an image, in the states in which Cinder does it."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from tests.api.test_volume_jobs import Death, MortalDisk
from tests.api.volume_cloud import IMAGE, SERVERS, VolumeCloud, volume_cloud
from whimbrel.embedded.volume.file_store import VolumeFiles
from whimbrel.sim.world.images import MemoryImages

OTHER = "6a09e667-f3bc-4908-b2fb-1366ea957d3f"
CONTENT = b"tock" * 1000


@pytest.fixture
def images() -> MemoryImages:
    return MemoryImages({IMAGE: b"tick" * 1000, OTHER: CONTENT})


def body(image: str = OTHER, **more: Any) -> dict[str, Any]:
    return {"os-reimage": {"image_id": image, **more}}


async def reserved(cloud: VolumeCloud, server: str = SERVERS[0], **fields: Any) -> str:
    volume = await cloud.volume(**fields)
    await cloud.done("ann", "POST", "/attachments", {"attachment": {"volume_uuid": volume, "instance_uuid": server}})
    return volume


async def test_a_free_volume_gets_the_content_and_metadata_of_the_image(tmp_path: Path, images: MemoryImages) -> None:
    async with volume_cloud(tmp_path, images=images) as cloud:
        volume = await cloud.volume(imageRef=IMAGE)
        cloud.write(volume, b"data of the guest")
        answer = await cloud.ask("ann", "POST", f"/volumes/{volume}/action", body())
        assert (answer.status_code, answer.content) == (202, b"")
        assert await cloud.status_now(volume) == "downloading"
        await cloud.worker.settle()
        shown = await cloud.show(volume)
        assert (shown["status"], shown["volume_image_metadata"]["image_id"]) == ("available", OTHER)
        assert cloud.content(volume) == CONTENT[:64]


async def test_a_reserved_volume_stays_reserved_and_is_not_connected_meanwhile(
    tmp_path: Path, images: MemoryImages
) -> None:
    async with volume_cloud(tmp_path, images=images) as cloud:
        volume = await reserved(cloud, imageRef=IMAGE)
        path = f"/volumes/{volume}/action"
        assert "reserved" in await cloud.refused(400, "ann", "POST", path, body())
        assert (await cloud.ask("ann", "POST", path, body(reimage_reserved=True))).status_code == 202
        assert "downloading" in await cloud.refused(400, "ann", "POST", path, body(reimage_reserved=True))
        [held] = (await cloud.ask("ann", "GET", "/attachments")).json()["attachments"]
        connector = {"attachment": {"connector": {"host": "h1"}}}
        await cloud.refused(400, "nova", "PUT", f"/attachments/{held['id']}", connector)
        await cloud.worker.settle()
        assert (await cloud.status(volume), cloud.content(volume)) == ("reserved", CONTENT[:64])
        await cloud.done("nova", "PUT", f"/attachments/{held['id']}", connector)
        assert "attaching" in await cloud.refused(400, "ann", "POST", path, body(reimage_reserved=True))


async def test_what_is_refused(tmp_path: Path, images: MemoryImages) -> None:
    async with volume_cloud(tmp_path, images=images) as cloud:
        volume = await cloud.volume()
        path = f"/volumes/{volume}/action"
        await cloud.refused(404, "ann", "POST", path, body(), version="3.67")
        await cloud.refused(404, "bob", "POST", path, body())
        await cloud.refused(403, "eve", "POST", path, body())
        await cloud.refused(400, "ann", "POST", path, body("nothing"))
        await cloud.refused(400, "ann", "POST", path, body("6a09e667-f3bc-4908-b2fb-1366ea957d30"))
        await cloud.refused(400, "ann", "POST", path, body(reimage_reserved="perhaps"))
        assert await cloud.status(volume) == "available"
        held = {"attachment": {"volume_uuid": volume, "instance_uuid": SERVERS[0]}}
        for _ in range(2):
            await cloud.done("nova", "POST", "/attachments", held)
        await cloud.refused(409, "ann", "POST", path, body(reimage_reserved=True))


async def test_an_image_that_cannot_be_read_leaves_the_volume_in_error(tmp_path: Path, images: MemoryImages) -> None:
    async with volume_cloud(tmp_path, images=images) as cloud:
        volume = await reserved(cloud, imageRef=IMAGE)
        await cloud.ask("ann", "POST", f"/volumes/{volume}/action", body(reimage_reserved=True))
        await images.delete(OTHER)
        await cloud.worker.settle()
        assert (await cloud.status(volume), cloud.content(volume)) == ("error", b"tick" * 16)
        await cloud.done("ann", "POST", f"/volumes/{volume}/action", body(IMAGE))
        assert await cloud.status(volume) == "reserved"


@pytest.mark.parametrize("lives", range(6))
async def test_a_volume_is_made_anew_whenever_the_process_dies(tmp_path: Path, lives: int) -> None:
    images = MemoryImages({IMAGE: b"tick" * 300_000, OTHER: b"tock" * 300_000})
    url, files = f"sqlite:///{tmp_path}", tmp_path / "files"
    async with volume_cloud(files, url, images=images) as cloud:
        volume = await cloud.volume(imageRef=IMAGE)
        await cloud.ask("ann", "POST", f"/volumes/{volume}/action", body())
        object.__setattr__(cloud.service, "files", VolumeFiles(files, MortalDisk(lives)))
        with contextlib.suppress(Death):
            await cloud.worker.settle()
        assert cloud.content(volume) in (b"tick" * 16, b"tock" * 16)
    async with volume_cloud(files, url, images=images) as cloud:
        await cloud.worker.settle()
        assert (await cloud.status(volume), cloud.content(volume)) == ("available", b"tock" * 16)
