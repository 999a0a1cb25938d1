"""What every store of the volume service does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.volumes import SqlVolumes
from whimbrel.domain.errors import Conflict, NotFound, OverQuota, Refused
from whimbrel.ports.embedded.volume_store import (
    DEFAULT_LIMITS,
    AttachmentQuery,
    AttachmentRecord,
    SnapshotQuery,
    SnapshotRecord,
    VolumeQuery,
    VolumeRecord,
    VolumeType,
    VolumeUsage,
)

TYPE = VolumeType(id="t1", name="plain", created_at=1.0, updated_at=1.0, extra_specs={"a": "b"}, projects=["p1"])
VOLUME = VolumeRecord(
    id="v1", name="disk", description="of ours", project_id="p1", user_id="u1", size_gib=2, status="available",
    type_id="t1", zone="nova", created_at=1.5, updated_at=1.5, metadata={"a": "1", "b": "2"},
    image_metadata={"os": "x"},
)  # fmt: skip
SNAPSHOT = SnapshotRecord(
    id="s1", volume_id="v1", project_id="p1", user_id="u1", name="then", description=None, status="available",
    size_gib=2, created_at=2.0, updated_at=2.0, metadata={"c": "3"},
)  # fmt: skip
HELD = AttachmentRecord(
    id="a1", volume_id="v1", project_id="p1", server_id="i1", status="attaching", mode="rw", created_at=3.0,
    connector={"host": "n1", "multipath": False}, connection={"driver_volume_type": "nbd"}, export="secret", host="n1",
)  # fmt: skip

Story = Callable[[SqlVolumes], Awaitable[None]]
Teller = Callable[[Story], None]


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[SqlVolumes]:
    """A store that has one type and one volume."""
    async with open_store("volumes") as db:
        store = SqlVolumes(db)
        await store.add_type(TYPE)
        await store.add_volume(VOLUME, DEFAULT_LIMITS)
        yield store


async def test_a_volume_comes_back_as_it_was_added(store: SqlVolumes) -> None:
    assert await store.find_volume("v1") == VOLUME
    with pytest.raises(Conflict):
        await store.add_volume(replace(VOLUME, name="other"), DEFAULT_LIMITS)
    with pytest.raises(NotFound):
        await store.find_volume("v2")


async def test_a_change_names_what_it_read(store: SqlVolumes) -> None:
    changed = await store.change_volume(replace(VOLUME, status="reserved", metadata={"c": "3"}))
    assert await store.find_volume("v1") == changed
    assert (changed.status, changed.metadata) == ("reserved", {"c": "3"})
    with pytest.raises(Conflict):
        await store.change_volume(replace(VOLUME, status="deleting"))
    with pytest.raises(Conflict):
        await store.remove_volume(VOLUME)
    assert await store.find_volume("v1") == changed
    changed = await store.change_volume(replace(changed, status="available"), same_metadata=True)
    assert await store.held_volume("v1") == (changed, [])
    with pytest.raises(NotFound):
        await store.change_volume(replace(VOLUME, id="v2"))
    with pytest.raises(NotFound):
        await store.held_volume("v2")
    await store.remove_volume(changed)
    with pytest.raises(NotFound):
        await store.remove_volume(changed)


async def test_a_state_and_its_attachment_are_one_write(store: SqlVolumes) -> None:
    attaching = await store.change_volume(replace(VOLUME, status="attaching"), attach=[HELD])
    assert await store.find_attachment("a1") == HELD
    with pytest.raises(Conflict):
        await store.change_volume(replace(VOLUME, status="reserved"), attach=[replace(HELD, id="a2", export="")])
    assert await store.attachments(volume_ids=["v1"]) == [HELD]
    assert await store.held_volume("v1") == (attaching, [HELD])
    with pytest.raises(Conflict):
        await store.remove_volume(attaching)
    done = replace(HELD, status="attached", attached_at=4.0)
    in_use = await store.change_volume(replace(attaching, status="in-use"), attach=[done])
    assert await store.find_attachment("a1") == done
    free = await store.change_volume(replace(in_use, status="available"), detach=["a1", "never there"])
    assert await store.attachments(volume_ids=["v1"]) == []
    with pytest.raises(NotFound):
        await store.find_attachment("a1")
    await store.remove_volume(free)


async def test_two_attachments_are_not_served_under_one_name(store: SqlVolumes) -> None:
    held = await store.change_volume(VOLUME, attach=[HELD])
    with pytest.raises(Conflict):
        await store.change_volume(held, attach=[replace(HELD, id="a2")])
    unserved = [replace(HELD, id=name, export="") for name in ("a2", "a3")]
    await store.change_volume(held, attach=unserved)
    assert len(await store.attachments()) == 3


async def test_attachments_are_found_by_what_they_join(store: SqlVolumes) -> None:
    await store.add_volume(replace(VOLUME, id="v2", project_id="p2"), DEFAULT_LIMITS)
    others = replace(HELD, id="a2", volume_id="v2", project_id="p2", server_id="i2", export="", created_at=9.0)
    second = replace(HELD, id="a0", server_id="i2", export="", created_at=5.0)
    await store.change_volume(VOLUME, attach=[second, HELD])
    await store.change_volume(replace(VOLUME, id="v2", project_id="p2"), attach=[others])

    async def ids(**which: Any) -> list[str]:
        return [attachment.id for attachment in await store.attachments(**which)]

    assert await ids() == ["a1", "a0", "a2"]
    assert await ids(server_id="i2") == ["a0", "a2"]
    assert await ids(server_id="i2", project_id="p1") == ["a0"]
    assert await ids(volume_ids=["v2"]) == ["a2"]
    assert await ids(volume_ids=[]) == []


async def test_attachments_come_page_by_page_whatever_changes_meanwhile(store: SqlVolumes) -> None:
    several = [replace(HELD, id=f"a{n}", export="", created_at=float(n // 3)) for n in range(8)]  # some of one time
    held = await store.change_volume(VOLUME, attach=several)
    query = AttachmentQuery(project_id="p1", status="attaching", limit=3)
    first = await store.attachment_page(query)
    assert first == several[:3]
    changed = [replace(first[-1], status="attached"), replace(several[4], status="attached")]
    await store.change_volume(held, attach=changed, detach=["a0", "a3"])
    second = await store.attachment_page(replace(query, after=first[-1]))
    assert [one.id for one in second] == ["a5", "a6", "a7"]
    assert await store.attachment_page(replace(query, after=second[-1])) == []
    everything = await store.attachment_page(AttachmentQuery(project_id=None))
    assert [one.id for one in everything] == [f"a{n}" for n in (1, 2, 4, 5, 6, 7)]
    for other in ({"volume_ids": ["v2"]}, {"server_id": "i2"}, {"project_id": "p2"}, {"limit": 0}):
        assert await store.attachment_page(replace(query, **other)) == []


async def test_of_two_who_read_the_same_one_writes(store: SqlVolumes) -> None:
    async def reserve(name: str) -> bool:
        try:
            claim = replace(HELD, id=name, export="", server_id=name)
            await store.change_volume(replace(VOLUME, status="reserved"), attach=[claim])
        except Conflict:
            return False
        return True

    won = await asyncio.gather(*(reserve(f"a{number}") for number in range(6)))
    assert won.count(True) == 1
    assert len(await store.attachments()) == 1


async def test_snapshots(store: SqlVolumes) -> None:
    await store.add_snapshot(SNAPSHOT, VOLUME, DEFAULT_LIMITS)
    assert await store.find_snapshot("s1") == SNAPSHOT
    with pytest.raises(Conflict):  # the volume is not as it was read: it has a snapshot now
        await store.change_volume(replace(VOLUME, status="deleting"))
    with pytest.raises(Conflict):
        await store.add_snapshot(replace(SNAPSHOT, id="s2"), VOLUME, DEFAULT_LIMITS)
    volume = await store.find_volume("v1")
    with pytest.raises(Conflict):
        await store.remove_volume(volume)
    changed = await store.change_snapshot(replace(SNAPSHOT, name="now", metadata={}))
    with pytest.raises(Conflict):
        await store.change_snapshot(replace(SNAPSHOT, name="late"))
    leaving = replace(changed, status="deleting")
    volume = await store.change_volume(replace(volume, status="deleting"), snapshots=[leaving])
    assert (await store.find_snapshot("s1")).status == "deleting"
    with pytest.raises(Conflict):
        await store.remove_snapshot(changed)
    await store.remove_snapshot(await store.find_snapshot("s1"))
    with pytest.raises(NotFound):
        await store.find_snapshot("s1")
    await store.remove_volume(volume)


async def test_nothing_is_written_beside_a_snapshot_that_changed(store: SqlVolumes) -> None:
    await store.add_snapshot(SNAPSHOT, VOLUME, DEFAULT_LIMITS)
    volume = await store.find_volume("v1")
    await store.change_snapshot(replace(SNAPSHOT, name="now"))
    with pytest.raises(Conflict):
        await store.change_volume(replace(volume, status="deleting"), snapshots=[replace(SNAPSHOT, name="x")])
    assert await store.find_volume("v1") == volume


async def test_limits_are_counted_where_more_is_taken(store: SqlVolumes) -> None:
    few = {"volumes": 2, "snapshots": 1, "gigabytes": 7, "per_volume_gigabytes": 4}
    for size, named in ((5, "5 GiB is over"), (6, "over the limit of 4")):
        with pytest.raises(OverQuota, match=named):
            await store.add_volume(replace(VOLUME, id="v2", size_gib=size), few)
    with pytest.raises(OverQuota, match="quota is 7G and 2G has been consumed"):
        await store.add_volume(replace(VOLUME, id="v2", size_gib=6), {**few, "per_volume_gigabytes": -1})
    await store.add_volume(replace(VOLUME, id="v2", size_gib=1), few)
    with pytest.raises(OverQuota, match="may have 2 volumes and has 2"):
        await store.add_volume(replace(VOLUME, id="v3", size_gib=1), few)
    await store.add_volume(replace(VOLUME, id="v3", project_id="p2"), few)
    await store.add_snapshot(SNAPSHOT, VOLUME, few)
    volume = await store.find_volume("v1")
    with pytest.raises(OverQuota, match="may have 1 snapshots"):
        await store.add_snapshot(replace(SNAPSHOT, id="s2"), volume, few)
    assert await store.usage("p1") == VolumeUsage(volumes=2, snapshots=1, gigabytes=5)
    with pytest.raises(OverQuota):
        await store.change_volume(replace(volume, size_gib=5), limits=few)
    assert (await store.change_volume(replace(volume, size_gib=4), limits=few)).size_gib == 4
    await store.set_limits("p1", {"volumes": -1, "gigabytes": 100})
    await store.set_limits("p1", {"volumes": 3})
    assert await store.limits("p1") == {"volumes": 3, "gigabytes": 100}
    await store.add_volume(replace(VOLUME, id="v4", size_gib=1), few)
    await store.reset_limits("p1")
    with pytest.raises(OverQuota):
        await store.add_volume(replace(VOLUME, id="v5", size_gib=1), few)


async def test_no_two_take_the_last_room(store: SqlVolumes) -> None:
    async def add(number: int) -> bool:
        try:
            await store.add_volume(replace(VOLUME, id=f"n{number}"), {**DEFAULT_LIMITS, "volumes": 3})
        except OverQuota:
            return False
        return True

    assert (await asyncio.gather(*(add(number) for number in range(6)))).count(True) == 2


async def test_types(store: SqlVolumes) -> None:
    assert await store.types() == [TYPE]
    other = replace(TYPE, id="t2", name="many", extra_specs={"multiattach": "<is> True"})
    await store.add_type(other)
    assert [each.multiattach for each in await store.types()] == [True, False]
    for taken in (replace(other, name="else"), replace(other, id="t3")):
        with pytest.raises(Conflict):
            await store.add_type(taken)
    with pytest.raises(Conflict):
        await store.change_type(replace(other, name="plain"))
    changed = await store.change_type(replace(other, public=False, projects=["p1", "p2"]))
    assert await store.types() == [changed, TYPE]
    with pytest.raises(Conflict):
        await store.change_type(replace(other, description="late"))
    with pytest.raises(Refused):
        await store.remove_type("t1")
    await store.remove_type("t2")
    for gone in (store.remove_type("t2"), store.change_type(changed)):
        with pytest.raises(NotFound):
            await gone


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("key", ["name", "size_gib", "status", "created_at", "bootable"])
async def test_every_order_is_whole(store: SqlVolumes, key: str, down: bool) -> None:
    for number in range(2, 8):
        await store.add_volume(
            replace(
                VOLUME,
                id=f"v{number}",
                name=None if number % 3 == 0 else f"n{number % 2}",
                size_gib=1 + number // 3,
                status="error" if number % 2 else "available",
                bootable=number > 4,
                created_at=float(number // 2),
            ),
            DEFAULT_LIMITS,
        )
    query = VolumeQuery(project_id=None, order=[(key, down), ("id", True)])
    everything = await store.volumes(query)
    assert len(everything) == 7
    paged: list[VolumeRecord] = []
    while page := await store.volumes(replace(query, limit=2, after=paged[-1] if paged else None)):
        paged += page
    assert paged == everything
    assert await store.volumes(replace(query, offset=5)) == everything[5:]
    assert await store.volumes(replace(query, offset=2, limit=2)) == everything[2:4]


async def test_lists_are_narrowed(store: SqlVolumes) -> None:
    await store.add_volume(
        replace(VOLUME, id="v2", project_id="p2", status="error", metadata={"a": "2"}), {**DEFAULT_LIMITS}
    )
    await store.add_snapshot(SNAPSHOT, VOLUME, DEFAULT_LIMITS)

    async def ids(project_id: str | None = None, **which: Any) -> list[str]:
        query = VolumeQuery(project_id=project_id, **which)
        found = [volume.id for volume in await store.volumes(query)]
        assert await store.count_volumes(query) == len(found)
        return sorted(found)

    assert await ids() == ["v1", "v2"]
    assert await ids("p2") == ["v2"]
    assert await ids(columns={"status": ["error", "in-use"]}) == ["v2"]
    assert await ids(columns={"name": ["disk"], "status": ["available"]}) == ["v1"]
    assert await ids(columns={"type_name": ["plain"]}) == ["v1", "v2"]
    assert await ids(columns={"type_name": ["other"]}) == []
    assert await ids(metadata={"a": "1"}) == ["v1"]
    assert await ids(metadata={"a": "1", "b": "3"}) == []
    for project, columns, number in (("p1", {}, 1), ("p2", {}, 0), (None, {"volume_id": ["v2"]}, 0)):
        query = SnapshotQuery(project_id=project, columns=columns)
        assert len(await store.snapshots(query)) == number
