"""What every image service does, in the process, over HTTP and in memory; and a real Glance.

For the real one see tests/openstack_services.py. It never forgets an id: each test has ids of its own.
"""

import hashlib
import io
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
import msgspec
import pycdlib
import pytest
from msgspec.structs import replace

from tests.contracts.http_statuses import EVERYWHERE
from tests.openstack_services import REAL, real_services
from whimbrel.adapters.openstack.images import HttpImages
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.image_store import SqlImages
from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.image import ImageService, LocalImages, image_app, seed_image
from whimbrel.embedded.image.file_store import FileStore
from whimbrel.embedded.image.storage_limit import Allowance
from whimbrel.ports.services.identity import Principal
from whimbrel.ports.services.images import Image, Images
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.disk_files import to_file
from whimbrel.sim.world.disks import Contents, Disk
from whimbrel.sim.world.ids import SeededIds
from whimbrel.sim.world.images import MemoryImages

MIB = 1 << 20
CONTENTS = bytes(range(256)) * 12_000  # three blocks
NOWHERE = "6a09e667-f3bc-4908-b2fb-1366ea957d3e"
QCOW2 = to_file(Disk(Contents("tests"), MIB))


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


class Remembering(HttpImages):
    """A client that remembers what it made, to delete it."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        super().__init__(client)
        self.made: list[str] = []

    async def create(self, image: Image) -> None:
        self.made.append(image.id)
        await super().create(image)


@dataclass
class Around:
    """An image service, and an image that can be made in it. protect: an image from being deleted, or end that."""

    images: Images
    protect: Callable[[str, bool], Awaitable[None]]
    is_real: bool = False
    image: Image = field(init=False)

    def __post_init__(self) -> None:
        self.image = self.new_image()

    def new_image(self, **changes: object) -> Image:
        image = Image(  # no name of an image that other tests look for in a service that all share
            id=str(uuid4()), name="contract", status="queued", disk_format="raw", size_bytes=0, checksum=None,
            min_disk_gib=1, min_ram_mib=64, owner=uuid4().hex,
            properties={"os_distro": "tick", "hw_disk_bus": "virtio"},
        )  # fmt: skip
        return replace(image, **changes)

    async def created(self, **changes: object) -> str:
        """Register an image, and return its id."""
        image = self.new_image(**changes)
        await self.images.create(image)
        return image.id

    async def contents(self, image_id: str) -> bytes:
        return b"".join([chunk async for chunk in self.images.read(image_id)])


@asynccontextmanager
async def in_memory() -> AsyncIterator[Around]:
    images = MemoryImages({})

    async def protect(image_id: str, protected: bool) -> None:
        images.protect(image_id)

    yield Around(images, protect)


@asynccontextmanager
async def in_process(service: ImageService) -> AsyncIterator[Around]:
    async def protect(image_id: str, protected: bool) -> None:
        await service.store.change(replace(await service.store.find(image_id), protected=protected))

    yield Around(LocalImages(service), protect)


@asynccontextmanager
async def over_http(client: httpx.AsyncClient, *, is_real: bool = False) -> AsyncIterator[Around]:
    images = Remembering(client)
    changes = {"Content-Type": "application/openstack-images-v2.1-json-patch"}

    async def protect(image_id: str, protected: bool) -> None:
        change = msgspec.json.encode([{"op": "replace", "path": "/protected", "value": protected}])
        (await client.patch(f"/v2/images/{image_id}", content=change, headers=changes)).raise_for_status()

    try:
        yield Around(images, protect, is_real)
    finally:
        for image_id in images.made:
            if (await client.get(f"/v2/images/{image_id}")).is_success:
                await protect(image_id, False)
                await images.delete(image_id)


@pytest.fixture(params=["memory", "local", "http", "local, postgresql", "http, postgresql", REAL])
async def around(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Around]:
    async with AsyncExitStack() as opened:
        enter = opened.enter_async_context
        if request.param == "memory":
            yield await enter(in_memory())
            return
        if request.param == "real":
            client = await enter(real_services().cloud("service").as_service("image"))
            yield await enter(over_http(client, is_real=True))
            return
        kind, _, database = request.param.partition(", ")
        db = await _database(request if database else None)
        opened.push_async_callback(db.close)
        store = SqlImages(db)
        service = ImageService(store, FileStore(tmp_path / "files"), JumpingClock(), Allowance(store))
        if kind == "local":
            yield await enter(in_process(service))
            return
        transport = httpx.ASGITransport(image_app(service, OneService(), SeededIds(1)))
        headers = {"X-Auth-Token": "service"}
        client = await enter(httpx.AsyncClient(transport=transport, base_url="http://image", headers=headers))
        yield await enter(over_http(client))


async def _database(postgresql: pytest.FixtureRequest | None) -> Database:
    """Return a database with empty tables, in PostgreSQL or in memory."""
    if postgresql:
        server = postgresql.getfixturevalue("postgres")
        return open_database(server.url, await postgresql.getfixturevalue("tables").empty("images"))
    db = open_database("sqlite://", "images")
    await create_all(db, "images")
    return db


async def sent(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_a_file_comes_back_as_it_was_written(around: Around) -> None:
    image_id = await around.created()
    await around.images.write(image_id, sent(CONTENTS[:1000], CONTENTS[1000:]))
    assert await around.contents(image_id) == CONTENTS
    shown = await around.images.show(image_id)
    md5 = hashlib.md5(CONTENTS, usedforsecurity=False).hexdigest()
    assert (shown.status, shown.size_bytes, shown.checksum) == ("active", len(CONTENTS), md5)


async def test_the_properties_of_an_image_are_replaced(around: Around) -> None:
    image_id = await around.created()
    wanted = {"hw_disk_bus": "scsi", "new/~one": "1"}
    for _ in range(2):
        await around.images.set_properties(image_id, wanted)
        assert (await around.images.show(image_id)).properties == wanted
    with pytest.raises(NotFound):
        await around.images.set_properties(NOWHERE, {})


async def test_an_image_keeps_what_it_was_created_with(around: Around) -> None:
    await around.images.create(around.image)
    shown = await around.images.show(around.image.id)
    assert replace(shown, created_at=0.0, updated_at=0.0) == around.image


async def test_an_image_without_a_format_is_raw(around: Around) -> None:
    image_id = await around.created(disk_format=None)
    await around.images.write(image_id, sent(CONTENTS))
    assert (await around.images.show(image_id)).disk_format == "raw"


async def test_an_empty_file_is_a_file(around: Around) -> None:
    image_id = await around.created()
    await around.images.write(image_id, sent())
    shown = await around.images.show(image_id)
    assert (shown.status, shown.size_bytes) == ("active", 0)
    assert await around.contents(image_id) == b""


async def test_what_is_not_there_is_not_found(around: Around) -> None:
    with pytest.raises(NotFound):
        await around.images.show(NOWHERE)
    with pytest.raises(NotFound):
        await around.contents(NOWHERE)
    with pytest.raises(NotFound):
        await around.images.write(NOWHERE, sent(b"x"))


async def test_an_image_without_a_file_cannot_be_read(around: Around) -> None:
    image_id = await around.created()
    with pytest.raises(NotFound):
        await around.contents(image_id)


async def test_everything_can_be_asked_twice(around: Around) -> None:
    for _ in range(2):
        await around.images.create(around.image)
        await around.images.write(around.image.id, sent(b"same"))
    assert await around.contents(around.image.id) == b"same"
    for _ in range(2):
        await around.images.delete(around.image.id)
    with pytest.raises(NotFound):
        await around.images.show(around.image.id)


async def test_create_does_not_touch_what_is_there(around: Around) -> None:
    await around.images.create(around.image)
    await around.images.create(replace(around.image, name="other"))
    assert (await around.images.show(around.image.id)).name == "contract"


async def test_a_protected_image_is_not_deleted(around: Around) -> None:
    image_id = await around.created()
    await around.protect(image_id, True)
    with pytest.raises(Refused, match="protected"):
        await around.images.delete(image_id)
    assert (await around.images.show(image_id)).protected


async def test_an_upload_that_breaks_off_leaves_the_image_queued(around: Around) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield CONTENTS
        raise Unavailable("the host is gone")

    image_id = await around.created()
    with pytest.raises(Unavailable):
        await around.images.write(image_id, broken())
    if around.is_real:  # when it notices is not known, and an upload meanwhile may end with the image deleted
        return
    assert (await around.images.show(image_id)).status == "queued"
    await around.images.write(image_id, sent(b"whole"))
    assert await around.contents(image_id) == b"whole"


async def test_a_seeded_image_is_there_once(around: Around) -> None:
    tick = replace(around.image, name=around.image.id, visibility="public")
    first = await seed_image(around.images, tick, b"tick")
    assert await seed_image(around.images, tick, b"tick") == first
    assert (first.status, first.visibility) == ("active", "public")
    assert await around.contents(first.id) == b"tick"


async def test_all_images_come_page_by_page(around: Around) -> None:
    ids = [await around.created() for _ in range(5)]
    told: list[Image] = []
    after: str | None = None
    while True:
        page = await around.images.all_images(after, 2)
        assert len(page.items) <= 2
        told += page.items
        if page.after is None:
            break
        after = page.after
    ours = [image for image in told if image.id in ids]
    assert sorted(image.id for image in ours) == sorted(ids)
    assert {image.properties["os_distro"] for image in ours} == {"tick"}


async def test_images_are_found_by_their_properties(around: Around) -> None:
    series = {"image_type": "backup", "backup_type": uuid4().hex}
    more: tuple[dict[str, str], ...] = (series, {**series, "a": "b"}, {**series, "backup_type": "weekly"}, {})
    ids = [await around.created(owner="p1", properties=properties) for properties in more]
    found = await around.images.with_properties(series)
    assert {image.id for image in found} == set(ids[:2])
    assert [image.owner for image in found] == ["p1", "p1"]
    assert await around.images.with_properties({**series, "image_type": "none"}) == []


async def test_the_newest_image_is_found_first(around: Around) -> None:
    """By seconds, which is what Glance has."""
    series = {"backup_type": uuid4().hex}
    for _ in range(3):
        await around.created(properties=series)
    found = await around.images.with_properties(series)
    assert len(found) == 3
    assert [one.created_at for one in found] == sorted((one.created_at for one in found), reverse=True)


# What a file has to be


def partition(first: int = 1, kind: int = 0x83, flag: int = 0x80) -> bytes:
    return struct.pack("<B3sB3sII", flag, b"\0\2\0", kind, b"\xff" * 3, first, 100)


def boot_sector(*partitions: bytes) -> bytes:
    return b"".join(partitions).ljust(64, b"\0").rjust(510, b"\x90") + b"\x55\xaa" + bytes(1024)


def fat() -> bytes:
    sector = bytearray(boot_sector())
    sector[0x10], sector[0x15] = 2, 0xF8
    return bytes(sector)


def iso(begins: bytes = b"") -> bytes:
    """Return a small ISO 9660 image. begins: what its system area has."""
    made, file = pycdlib.PyCdlib(), io.BytesIO()
    made.new()
    made.write_fp(file)
    made.close()
    return begins + file.getvalue()[len(begins) :]


def backed() -> bytes:
    """Return a qcow2 image with a backing file."""
    name = b"/etc/passwd"
    return QCOW2[:8] + struct.pack(">QI", 1024, len(name)) + QCOW2[20:1024] + name + QCOW2[1024 + len(name) :]


GPT = boot_sector(partition(kind=0xEE, flag=0))
GOOD = {
    "raw": ("raw", CONTENTS),
    "a disk with a partition": ("raw", boot_sector(partition())),
    "a disk with a GPT": ("raw", GPT),
    "a FAT file system": ("raw", fat()),
    "qcow2 declared as raw": ("raw", QCOW2),
    "qcow2": ("qcow2", QCOW2),
    "an ISO image": ("iso", iso()),
    "a bootable ISO image": ("iso", iso(GPT[:512])),
    "a format that is not recognised": ("ploop", CONTENTS),
}


@pytest.mark.parametrize("what", GOOD)
async def test_contents_of_the_declared_format_are_stored(around: Around, what: str) -> None:
    disk_format, file = GOOD[what]
    image_id = await around.created(disk_format=disk_format)
    await around.images.write(image_id, sent(file[:700], file[700:]))
    assert await around.contents(image_id) == file


UNSAFE = "Image failed safety checks"
BAD = {
    "raw declared as qcow2": ("qcow2", CONTENTS, "Image disk_format qcow2 does not match stream data raw"),
    "nothing declared as qcow2": ("qcow2", b"", "Image disk_format qcow2 does not match stream data raw"),
    "qcow2 declared as an ISO image": ("iso", QCOW2, "Image disk_format iso does not match stream data qcow2"),
    "a disk declared as a kernel": ("aki", boot_sector(), "Image disk_format aki does not match stream data gpt"),
    "a boot sector without partitions": ("raw", boot_sector(), UNSAFE),
    "a bad boot flag": ("raw", boot_sector(partition(flag=1)), UNSAFE),
    "a GPT at the wrong sector": ("raw", boot_sector(partition(kind=0xEE, first=2)), UNSAFE),
    "a GPT beside a partition": ("raw", boot_sector(partition(kind=0xEE), partition()), UNSAFE),
    "a backing file": ("qcow2", backed(), UNSAFE),
    "a backing file, declared as raw": ("raw", backed(), UNSAFE),
    "two formats": ("raw", iso(QCOW2[:32768]), "Multiple formats detected"),
}


@pytest.mark.parametrize("what", BAD)
async def test_other_contents_are_refused_and_the_image_stays_queued(around: Around, what: str) -> None:
    disk_format, file, reason = BAD[what]
    image_id = await around.created(disk_format=disk_format)
    with pytest.raises(Refused, match=reason):
        await around.images.write(image_id, sent(file))
    assert (await around.images.show(image_id)).status == "queued"
    with pytest.raises(NotFound):
        await around.contents(image_id)


async def test_an_image_takes_right_contents_after_wrong_ones(around: Around) -> None:
    image_id = await around.created(disk_format="qcow2")
    with pytest.raises(Refused):
        await around.images.write(image_id, sent(CONTENTS))
    if around.is_real:  # Glance leaves the refused file in a file store, and answers 500 from then on
        with pytest.raises(Unavailable, match="500"):
            await around.images.write(image_id, sent(QCOW2))
        return
    await around.images.write(image_id, sent(QCOW2))
    assert await around.contents(image_id) == QCOW2


# Answers that no service of the suite gives


async def read_all(images: Images) -> bytes:
    return b"".join([chunk async for chunk in images.read(NOWHERE)])


@pytest.mark.parametrize(("status", "error"), [*EVERYWHERE, (409, Conflict), (410, NotFound), (413, Refused)])
async def test_what_an_http_status_means(status: int, error: type[Exception]) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, text="<h1>no</h1>"))
    async with httpx.AsyncClient(transport=transport, base_url="http://image") as client:
        with pytest.raises(error, match=f"{status}: <h1>no"):
            await HttpImages(client).show(NOWHERE)
        with pytest.raises(error, match=f"{status}: <h1>no"):
            await read_all(HttpImages(client))


async def test_no_answer_is_unavailable() -> None:
    def hang_up(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("connection reset")

    transport = httpx.MockTransport(hang_up)
    async with httpx.AsyncClient(transport=transport, base_url="http://image") as client:
        with pytest.raises(Unavailable):
            await HttpImages(client).delete(NOWHERE)
        with pytest.raises(Unavailable):
            await read_all(HttpImages(client))


async def test_the_reason_of_glance_is_one_line_without_markup() -> None:
    said = {"message": "It is not supported.\n<br /><br />\nImage failed<br /><br />\n\n", "code": "415 Unsupported"}
    transport = httpx.MockTransport(lambda request: httpx.Response(415, json=said))
    async with httpx.AsyncClient(transport=transport, base_url="http://image") as client:
        with pytest.raises(Refused, match=r"answers 415: It is not supported\. Image failed$"):
            await HttpImages(client).show(NOWHERE)


@pytest.mark.parametrize("status", ["saving", "queued"])
async def test_a_second_upload_waits_for_the_first(status: str) -> None:
    """Glance answers 409 while another upload is under way, or has broken off and it has not noticed."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            return httpx.Response(409, json={"message": "Image status transition from saving to saving is not allowed"})
        return httpx.Response(200, json={"id": NOWHERE, "status": status})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://image") as client:
        with pytest.raises(Unavailable, match="another upload"):
            await HttpImages(client).write(NOWHERE, sent(b"x"))
