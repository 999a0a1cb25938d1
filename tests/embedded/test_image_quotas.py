"""What a project may have in the image service: images and bytes, also while several files are uploaded at once."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from tests.embedded.opened import Opened, opened
from tests.embedded.test_image_http import IMAGES, OCTETS, create, upload
from whimbrel.embedded.image.file_store import CHUNK_BYTES
from whimbrel.ports.services.images import ImageLimits

MIB = 1 << 20


async def usage(services: Opened, who: str = "ann") -> dict[str, tuple[int, int]]:
    answer = await services.ask(who, "GET", "/image/v2/info/usage")
    assert answer.status_code == 200
    return {name: (each["usage"], each["limit"]) for name, each in answer.json()["usage"].items()}


def on_disk(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir())


async def test_a_project_has_so_many_images(tmp_path: Path) -> None:
    async with opened(tmp_path, ImageLimits(images=2)) as services:
        made = [await create(services) for _ in range(2)]
        refused = await services.ask("ann", "POST", IMAGES, {})
        assert (refused.status_code, refused.json()["message"]) == (413, "The project may have 2 images and has 2.")
        await create(services, who="bob")
        await services.ask("ann", "DELETE", f"{IMAGES}/{made[0]['id']}")
        await create(services)


async def test_a_project_has_so_many_bytes(tmp_path: Path) -> None:
    async with opened(tmp_path, ImageLimits(size_bytes=3 * MIB)) as services:
        first, second, third = [(await create(services))["id"] for _ in range(3)]
        assert (await upload(services, first, bytes(2 * MIB))).status_code == 204
        refused = await upload(services, second, bytes(MIB + 1))
        assert refused.status_code == 413
        assert "there is no room" in refused.json()["message"]
        assert (await services.ask("ann", "GET", f"{IMAGES}/{second}")).json()["status"] == "queued"
        assert (await upload(services, second, bytes(MIB))).status_code == 204
        assert (await upload(services, third, b"x")).status_code == 413
        await services.ask("ann", "DELETE", f"{IMAGES}/{first}")
        assert (await upload(services, third, b"x")).status_code == 204


async def test_usage_is_shown_with_the_names_of_unified_limits(tmp_path: Path) -> None:
    async with opened(tmp_path, ImageLimits(images=5, size_bytes=10 * MIB)) as services:
        await upload(services, (await create(services))["id"], bytes(2 * MIB + 1))
        await create(services)
        assert await usage(services) == {
            "image_size_total": (2, 10),
            "image_stage_total": (0, -1),
            "image_count_total": (2, 5),
            "image_count_uploading": (0, -1),
        }
        assert (await usage(services, "bob"))["image_count_total"] == (0, 5)


async def test_a_length_that_is_announced_is_refused_before_the_file(tmp_path: Path) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("nobody reads it")
        yield b""

    async with opened(tmp_path, ImageLimits(size_bytes=MIB)) as services:
        path = f"{IMAGES}/{(await create(services))['id']}/file"
        headers = {"X-Auth-Token": "token of ann", "Content-Type": OCTETS["Content_Type"]}
        announced = {**headers, "X-OpenStack-Image-Size": str(MIB + 1)}
        assert (await services.client.put(path, content=never(), headers=announced)).status_code == 413


async def test_uploads_at_once_never_have_more_than_the_limit_on_the_disk(tmp_path: Path) -> None:
    async def slow(blocks: int) -> AsyncIterator[bytes]:
        for _ in range(blocks):
            yield bytes(CHUNK_BYTES)
            await asyncio.sleep(0)

    async with opened(tmp_path, ImageLimits(size_bytes=5 * CHUNK_BYTES)) as services:
        ids = [(await create(services))["id"] for _ in range(6)]
        most = 0

        async def put(image_id: str) -> int:
            headers = {"X-Auth-Token": "token of ann", "Content-Type": OCTETS["Content_Type"]}
            path = f"{IMAGES}/{image_id}/file"
            return (await services.client.put(path, content=slow(2), headers=headers)).status_code

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, on_disk(tmp_path))
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        said = await asyncio.gather(*(put(image_id) for image_id in ids))
        watching.cancel()
        assert most <= 5 * CHUNK_BYTES
        assert 413 in said
        stored = said.count(204) * 2
        assert (await usage(services))["image_size_total"] == (stored, 5)
        assert on_disk(tmp_path) == stored * CHUNK_BYTES
        left = ids[said.index(413)]
        assert (await upload(services, left, bytes((5 - stored) * CHUNK_BYTES))).status_code == 204
        assert len(os.listdir(tmp_path)) == said.count(204) + 1


async def test_who_announces_a_length_first_has_the_room(tmp_path: Path) -> None:
    async with opened(tmp_path, ImageLimits(size_bytes=5 * CHUNK_BYTES)) as services:
        ids = [(await create(services))["id"] for _ in range(6)]
        said = await asyncio.gather(*(upload(services, image_id, bytes(2 * CHUNK_BYTES)) for image_id in ids))
        assert sorted(each.status_code for each in said) == [204, 204, 413, 413, 413, 413]
        assert on_disk(tmp_path) == 4 * CHUNK_BYTES
