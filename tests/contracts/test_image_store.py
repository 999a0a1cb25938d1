"""What every store of the image service does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.image_store import SqlImages
from whimbrel.domain.errors import Conflict, NotFound, OverQuota, Refused
from whimbrel.ports.services.images import ImageQuery, ImageRecord, ImageUsage, Member, StoredFile

IMAGE = ImageRecord(
    id="i1", name="tick", owner="p1", visibility="private", disk_format="raw", container_format="bare",
    created_at=1.5, updated_at=1.5, properties={"a": "1", "b": "2"}, tags=["x", "y"],
)  # fmt: skip
FILE = StoredFile(name="f1", size_bytes=5_000_000_000, md5="0" * 32, sha512="0" * 128)

Story = Callable[[SqlImages], Awaitable[None]]
Teller = Callable[[Story], None]


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[SqlImages]:
    """A store that has one image."""
    async with open_store("images") as db:
        store = SqlImages(db)
        await store.add(IMAGE)
        yield store


async def test_a_record_comes_back_as_it_was_added(store: SqlImages) -> None:
    assert await store.find("i1") == IMAGE
    with pytest.raises(Conflict):
        await store.add(replace(IMAGE, name="other"))
    with pytest.raises(NotFound):
        await store.find("i2")


async def test_a_change_names_what_it_read(store: SqlImages) -> None:
    changed = await store.change(replace(IMAGE, name=None, properties={"c": "3"}, tags=[]))
    assert await store.find("i1") == changed
    assert (changed.name, changed.properties, changed.tags) == (None, {"c": "3"}, [])
    with pytest.raises(Conflict):
        await store.change(replace(IMAGE, name="late"))
    assert await store.find("i1") == changed
    with pytest.raises(NotFound):
        await store.change(replace(IMAGE, id="i2"))


async def test_one_file_and_no_other(store: SqlImages) -> None:
    assert not await store.names_file("f1")
    await store.attach_file("i1", FILE, 2.0)
    found = await store.find("i1")
    assert (found.stored, found.status, found.updated_at) == (FILE, "active", 2.0)
    assert await store.names_file("f1")
    with pytest.raises(Conflict):
        await store.attach_file("i1", replace(FILE, name="f2"), 3.0)
    await store.add(replace(IMAGE, id="i2"))
    with pytest.raises(Conflict):
        await store.attach_file("i2", FILE, 3.0)
    with pytest.raises(NotFound):
        await store.attach_file("i3", FILE, 3.0)


async def test_removing_gives_the_file_that_is_free(store: SqlImages) -> None:
    await store.attach_file("i1", FILE, 2.0)
    await store.change(replace(await store.find("i1"), protected=True))
    with pytest.raises(Refused):
        await store.remove("i1")
    await store.change(replace(await store.find("i1"), protected=False))
    await store.add_member(member("p2"))
    assert await store.remove("i1") == FILE
    assert not await store.names_file("f1")
    assert await store.members("i1") == []
    with pytest.raises(NotFound):
        await store.remove("i1")
    await store.add(IMAGE)
    assert await store.remove("i1") is None


def member(project_id: str) -> Member:
    return Member(image_id="i1", project_id=project_id, status="pending", created_at=1.0, updated_at=1.0)


async def test_members(store: SqlImages) -> None:
    await store.add_member(member("p3"))
    await store.add_member(member("p2"))
    with pytest.raises(Conflict):
        await store.add_member(member("p2"))
    with pytest.raises(NotFound):
        await store.add_member(replace(member("p2"), image_id="i2"))
    accepted = await store.change_member("i1", "p2", "accepted", 2.0)
    assert (accepted.status, accepted.updated_at, accepted.created_at) == ("accepted", 2.0, 1.0)
    assert await store.members("i1") == [accepted, member("p3")]
    await store.remove_member("i1", "p3")
    for gone in (store.remove_member("i1", "p3"), store.change_member("i1", "p3", "accepted", 2.0)):
        with pytest.raises(NotFound):
            await gone


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("key", ["name", "size_bytes", "status", "created_at", "disk_format", "owner", "visibility"])
async def test_every_order_is_whole(store: SqlImages, key: str, down: bool) -> None:
    for number in range(2, 8):
        nothing = number % 3 == 0
        record = replace(
            IMAGE,
            id=f"i{number}",
            name=None if nothing else f"n{number % 2}",
            owner=None if nothing else "p1",
            disk_format=None if nothing else "raw",
            created_at=float(number // 2),
        )
        await store.add(record)
        if number % 2:
            await store.attach_file(record.id, replace(FILE, name=f"f{number}", size_bytes=number // 3), 9.0)
    query = ImageQuery(viewer=None, order=[(key, down), ("id", True)], limit=100)
    everything = await store.search(query)
    assert len(everything) == 7
    paged: list[ImageRecord] = []
    while page := await store.search(replace(query, limit=2, after=paged[-1] if paged else None)):
        paged += page
    assert paged == everything


async def test_a_project_has_so_many_images_whoever_adds_at_once(store: SqlImages) -> None:
    async def add(number: int) -> bool:
        try:
            await store.add(replace(IMAGE, id=f"n{number}", owner="p2"), most=2)
        except OverQuota:
            return False
        return True

    added = await asyncio.gather(*(add(number) for number in range(4)))
    assert sum(added) == 2
    assert (await store.usage("p2")).images == 2
    await store.add(replace(IMAGE, id="other", owner="p3"), most=1)
    await store.remove(f"n{added.index(True)}")
    assert await add(8)


async def test_the_bytes_of_a_project_are_counted(store: SqlImages) -> None:
    await store.add(replace(IMAGE, id="i2"))
    await store.attach_file("i1", FILE, 2.0)
    assert await store.usage("p1") == ImageUsage(images=2, size_bytes=FILE.size_bytes)
    assert await store.usage("p1", but=["f1"]) == ImageUsage(images=2, size_bytes=0)
    assert await store.usage("p2") == ImageUsage(images=0, size_bytes=0)
