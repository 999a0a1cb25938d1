"""The jobs of the volume service: they are finished after a crash, and failures are reported."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.volume_cloud import IMAGE, VolumeCloud, on_the_spot, volume_cloud
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.embedded.volume.file_store import VolumeFiles
from whimbrel.ports.services.images import Image
from whimbrel.sim.world.images import MemoryImages

FILE = b"tick" * 300_000


class Death(BaseException):
    """The process ends here."""


class MortalDisk:
    """A disk whose process dies after so many things that it did."""

    def __init__(self, lives: int) -> None:
        self.lives = lives

    async def __call__(self, function: Any, *arguments: Any) -> Any:
        if not self.lives:
            raise Death
        self.lives -= 1
        return function(*arguments)


async def _ordered(cloud: VolumeCloud, kind: str) -> str:
    """Order a job and do not run it."""
    origin = await cloud.volume(name="origin")
    cloud.write(origin, FILE[:64])
    requested: dict[str, Any] = {"size": 1}
    if kind == "image":
        requested["imageRef"] = IMAGE
    elif kind == "volume":
        requested["source_volid"] = origin
    elif kind == "snapshot":
        made = await cloud.done("ann", "POST", "/snapshots", {"snapshot": {"volume_id": origin}})
        requested["snapshot_id"] = made["snapshot"]["id"]
    answer = await cloud.ask("ann", "POST", "/volumes", {"volume": requested})
    return str(answer.json()["volume"]["id"])


@pytest.mark.parametrize("lives", range(10))
@pytest.mark.parametrize("kind", ["image", "volume", "snapshot", "nothing"])
async def test_a_volume_is_made_whenever_the_process_dies(tmp_path: Path, kind: str, lives: int) -> None:
    images = MemoryImages({IMAGE: FILE})
    url, files = f"sqlite:///{tmp_path}", tmp_path / "files"
    async with volume_cloud(files, url, images=images) as cloud:
        volume = await _ordered(cloud, kind)
        object.__setattr__(cloud.service, "files", VolumeFiles(files, MortalDisk(lives)))
        with contextlib.suppress(Death):
            await cloud.worker.settle()
    async with volume_cloud(files, url, images=images) as cloud:
        await cloud.worker.settle()
        assert await cloud.status(volume) == "available"
        assert cloud.content(volume) == (bytes(64) if kind == "nothing" else FILE[:64])
        assert not [name for name in os.listdir(files) if name.endswith(".part")]


@pytest.mark.parametrize("lives", range(3))
async def test_a_volume_is_deleted_whenever_the_process_dies(tmp_path: Path, lives: int) -> None:
    url, files = f"sqlite:///{tmp_path}", tmp_path / "files"
    async with volume_cloud(files, url) as cloud:
        volume = await cloud.volume()
        await cloud.done("ann", "POST", "/snapshots", {"snapshot": {"volume_id": volume}})
        await cloud.ask("ann", "DELETE", f"/volumes/{volume}", cascade="true")
        object.__setattr__(cloud.service, "files", VolumeFiles(files, MortalDisk(lives)))
        with contextlib.suppress(Death):
            await cloud.worker.settle()
    async with volume_cloud(files, url) as cloud:
        await cloud.worker.settle()
        await cloud.refused(404, "ann", "GET", f"/volumes/{volume}")
        assert os.listdir(files) == []


class TroubledImages(MemoryImages):
    """Images that are told of and cannot be read."""

    def __init__(self, trouble: Exception) -> None:
        super().__init__({IMAGE: FILE})
        self._trouble: Exception | None = trouble

    async def read(self, image_id: str) -> AsyncIterator[bytes]:
        yield FILE[:1000]
        if self._trouble:
            raise self._trouble
        yield FILE[1000:]

    def heal(self) -> None:
        self._trouble = None


@pytest.mark.parametrize("trouble", [Refused("no"), Unavailable("no answer")])
async def test_what_cannot_be_made_is_an_error(tmp_path: Path, trouble: Exception) -> None:
    async with volume_cloud(tmp_path, images=TroubledImages(trouble)) as cloud:
        volume = await cloud.volume(imageRef=IMAGE)
        assert await cloud.status(volume) == "error"
        assert not cloud.service.files.volume(volume).exists()
        await cloud.done("ann", "DELETE", f"/volumes/{volume}")
        assert os.listdir(tmp_path) == []


async def test_an_image_larger_than_its_volume_is_an_error(tmp_path: Path) -> None:
    """The image service may say less than it sends."""

    class Liar(MemoryImages):
        async def read(self, image_id: str) -> AsyncIterator[bytes]:
            for _ in range(1025):
                yield bytes(1 << 20)

    async with volume_cloud(tmp_path, images=Liar({IMAGE: FILE})) as cloud:
        assert await cloud.status(await cloud.volume(imageRef=IMAGE)) == "error"


async def test_an_image_that_nothing_here_reads_is_an_error(tmp_path: Path) -> None:
    class Qcow2(MemoryImages):
        async def show(self, image_id: str) -> Image:
            found = await super().show(image_id)
            return Image(**{name: getattr(found, name) for name in found.__struct_fields__} | {"disk_format": "qcow2"})

    async with volume_cloud(tmp_path, images=Qcow2({IMAGE: FILE})) as cloud:
        assert await cloud.status(await cloud.volume(imageRef=IMAGE)) == "error"


async def test_a_disk_that_fails_is_tried_again(tmp_path: Path) -> None:
    images = TroubledImages(Unavailable("no answer"))
    async with volume_cloud(tmp_path, images=images) as cloud:
        answer = await cloud.ask("ann", "POST", "/volumes", {"volume": {"size": 1, "imageRef": IMAGE}})
        volume = answer.json()["volume"]["id"]
        [record] = await cloud.worker._due()
        await cloud.worker._do(record)
        assert await cloud.status_now(volume) == "downloading"
        images.heal()
        await cloud.worker.settle()
        assert await cloud.status(volume) == "available"


async def test_the_worker_runs_beside_the_requests(cloud: VolumeCloud) -> None:
    working = asyncio.create_task(cloud.worker.run())
    answer = await cloud.ask("ann", "POST", "/volumes", {"volume": {"size": 1, "imageRef": IMAGE}})
    volume = answer.json()["volume"]["id"]
    while await cloud.status_now(volume) != "available":
        await cloud.clock.sleep(0)
    assert not working.done()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_copies_are_sparse_and_equal(tmp_path: Path) -> None:
    files = VolumeFiles(tmp_path, on_the_spot)
    source, copy = files.volume("a"), files.volume("b")
    await files.create(source, 1 << 30)
    with source.open("r+b") as file:
        for offset, content in ((5_000_000, b"here"), (900_000_000, b"there")):
            file.seek(offset)
            file.write(content)
    await files.copy(source, copy, 2 << 30)
    assert copy.stat().st_size == 2 << 30
    assert copy.stat().st_blocks < 100
    with copy.open("rb") as file:
        for offset, content in ((5_000_000, b"here"), (900_000_000, b"there")):
            file.seek(offset)
            assert file.read(len(content)) == content


async def test_what_is_reserved_for_databases_stays_free(cloud: VolumeCloud, tmp_path: Path) -> None:
    empty = await cloud.volume()
    cloud.write(empty, b"data")
    files = VolumeFiles(tmp_path, on_the_spot, reserved_bytes=1 << 62)
    object.__setattr__(cloud.service, "files", files)
    assert await cloud.status(await cloud.volume()) == "available"  # it takes no room
    assert await cloud.status(await cloud.volume(imageRef=IMAGE)) == "error"
    assert await cloud.status(await cloud.volume(source_volid=empty)) == "error"
    made = await cloud.done("ann", "POST", "/snapshots", {"snapshot": {"volume_id": empty}})
    shown = await cloud.done("ann", "GET", f"/snapshots/{made['snapshot']['id']}")
    assert shown["snapshot"]["status"] == "error"
    sent = {"os-volume_upload_image": {"image_name": "i"}}
    await cloud.done("ann", "POST", f"/volumes/{empty}/action", sent)
    assert await cloud.status(empty) == "available"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]
