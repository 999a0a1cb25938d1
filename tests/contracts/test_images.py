"""What every image service does, in the process, over HTTP and in memory."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.contracts.databases import Opener
from whimbrel.adapters.openstack.images import HttpImages
from whimbrel.adapters.sql.image_store import SqlImages
from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.image import ImageService, LocalImages, image_app, seed_image
from whimbrel.embedded.image.file_store import FileStore
from whimbrel.embedded.image.storage_limit import Allowance
from whimbrel.ports.services.identity import Principal
from whimbrel.ports.services.images import Image, Images
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.ids import SeededIds
from whimbrel.sim.world.images import MemoryImages

ID = "6a09e667-f3bc-4908-b2fb-1366ea957d3e"
IMAGE = Image(
    id=ID, name="tick", status="queued", disk_format="qcow2", size_bytes=0, checksum=None,
    min_disk_gib=1, min_ram_mib=64, owner="p1", properties={"os_distro": "tick", "hw_disk_bus": "virtio"},
)  # fmt: skip
CONTENTS = bytes(range(256)) * 12_000  # three blocks

Story = Callable[[Images], Awaitable[None]]
Teller = Callable[[Story], None]


class OneService:
    """An identity service that knows the cloud's own service user and nobody else."""

    async def principal(self, token: str) -> Principal | None:
        if token != "service":
            return None
        return Principal(
            user_id=UserId("w"),
            user_name="whimbrel",
            project_id=ProjectId("services"),
            roles=frozenset({"service"}),
        )


@pytest.fixture(params=["local", "http", "memory"])
async def images(request: pytest.FixtureRequest, open_store: Opener, tmp_path: Path) -> AsyncIterator[Images]:
    if request.param == "memory":
        yield MemoryImages({})
        return
    async with open_store("images") as db:
        store = SqlImages(db)
        service = ImageService(store, FileStore(tmp_path / "files"), JumpingClock(), Allowance(store))
        if request.param == "local":
            yield LocalImages(service)
            return
        app = image_app(service, OneService(), SeededIds(1))
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://image", headers={"X-Auth-Token": "service"}
        ) as client:
            yield HttpImages(client)


async def sent(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def contents(images: Images, image_id: str) -> bytes:
    return b"".join([chunk async for chunk in images.read(image_id)])


async def test_a_file_comes_back_as_it_was_written(images: Images) -> None:
    await images.create(IMAGE)
    await images.write(ID, sent(CONTENTS[:1000], CONTENTS[1000:]))
    assert await contents(images, ID) == CONTENTS
    shown = await images.show(ID)
    md5 = hashlib.md5(CONTENTS, usedforsecurity=False).hexdigest()
    assert (shown.status, shown.size_bytes, shown.checksum) == ("active", len(CONTENTS), md5)


async def test_an_image_keeps_what_it_was_created_with(images: Images) -> None:
    await images.create(IMAGE)
    assert await images.show(ID) == IMAGE


async def test_an_empty_file_is_a_file(images: Images) -> None:
    await images.create(IMAGE)
    await images.write(ID, sent())
    assert (await images.show(ID)).status == "active"
    assert await contents(images, ID) == b""


async def test_what_is_not_there_is_not_found(images: Images) -> None:
    with pytest.raises(NotFound):
        await images.show(ID)
    with pytest.raises(NotFound):
        await contents(images, ID)
    with pytest.raises(NotFound):
        await images.write(ID, sent(b"x"))


async def test_an_image_without_a_file_cannot_be_read(images: Images) -> None:
    await images.create(IMAGE)
    with pytest.raises(NotFound):
        await contents(images, ID)


async def test_everything_can_be_asked_twice(images: Images) -> None:
    for _ in range(2):
        await images.create(IMAGE)
        await images.write(ID, sent(b"same"))
    assert await contents(images, ID) == b"same"
    for _ in range(2):
        await images.delete(ID)
    with pytest.raises(NotFound):
        await images.show(ID)


async def test_create_does_not_touch_what_is_there(images: Images) -> None:
    await images.create(IMAGE)
    await images.create(msgspec.structs.replace(IMAGE, name="other"))
    assert (await images.show(ID)).name == "tick"


async def test_an_upload_that_breaks_off_leaves_the_image_queued(images: Images) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield CONTENTS
        raise Unavailable("the host is gone")

    await images.create(IMAGE)
    with pytest.raises(Unavailable):
        await images.write(ID, broken())
    assert (await images.show(ID)).status == "queued"
    await images.write(ID, sent(b"whole"))
    assert await contents(images, ID) == b"whole"


async def test_a_seeded_image_is_there_once(images: Images) -> None:
    tick = msgspec.structs.replace(IMAGE, visibility="public", owner=None)
    first = await seed_image(images, tick, b"tick")
    assert await seed_image(images, tick, b"tick") == first
    assert (first.status, first.visibility) == ("active", "public")
    assert await contents(images, first.id) == b"tick"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Refused),
        (401, Unavailable),
        (403, Refused),
        (404, NotFound),
        (409, Conflict),
        (410, NotFound),
        (413, Refused),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_what_an_http_status_means(status: int, error: type[Exception]) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, text="<h1>no</h1>"))
    async with httpx.AsyncClient(transport=transport, base_url="http://image") as client:
        with pytest.raises(error, match=f"{status}: <h1>no"):
            await HttpImages(client).show(ID)
        with pytest.raises(error, match=f"{status}: <h1>no"):
            await contents(HttpImages(client), ID)


async def test_no_answer_is_unavailable() -> None:
    def hang_up(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("connection reset")

    transport = httpx.MockTransport(hang_up)
    async with httpx.AsyncClient(transport=transport, base_url="http://image") as client:
        with pytest.raises(Unavailable):
            await HttpImages(client).delete(ID)
        with pytest.raises(Unavailable):
            await contents(HttpImages(client), ID)


async def test_all_images_come_page_by_page(images: Images) -> None:
    ids = [ID, *(f"{ID[:-1]}{last}" for last in "0123")]
    for number, each in enumerate(ids):
        await images.create(msgspec.structs.replace(IMAGE, id=each, owner=f"p{number}"))
    told: list[Image] = []
    after: str | None = None
    while True:
        page = await images.all_images(after, 2)
        assert len(page.items) <= 2
        told += page.items
        if page.after is None:
            break
        after = page.after
    assert sorted(image.id for image in told) == sorted(ids)
    assert {image.properties["os_distro"] for image in told} == {"tick"}
