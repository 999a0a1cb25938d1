"""What every keep does: values by space and key, durable when put returns."""

import asyncio

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.key_value_store import SqlKeep


def test_gives_back_what_was_put_last(open_store: Opener) -> None:
    async def story() -> None:
        async with open_store("keep") as db:
            keep = SqlKeep(db)
            assert await keep.get("fences", "run-1") is None
            await keep.put("fences", "run-1", b"\x00one")
            await keep.put("fences", "run-1", b"two")
            await keep.put("jobs", "run-1", b"other")
            assert await keep.get("fences", "run-1") == b"two"
            assert await keep.get("jobs", "run-1") == b"other"

    asyncio.run(story())


def test_scans_one_space_only(open_store: Opener) -> None:
    async def story() -> None:
        async with open_store("keep") as db:
            keep = SqlKeep(db)
            await keep.put("jobs", "b", b"2")
            await keep.put("jobs", "a", b"1")
            await keep.put("fences", "c", b"3")
            assert await keep.scan("jobs") == {"a": b"1", "b": b"2"}
            assert await keep.scan("nothing") == {}

    asyncio.run(story())


def test_delete_is_fine_twice(open_store: Opener) -> None:
    async def story() -> None:
        async with open_store("keep") as db:
            keep = SqlKeep(db)
            await keep.put("jobs", "a", b"1")
            await keep.delete("jobs", "a")
            await keep.delete("jobs", "a")
            assert await keep.scan("jobs") == {}

    asyncio.run(story())


def test_replaces_only_what_is_there_as_it_was_read(open_store: Opener) -> None:
    async def story() -> None:
        async with open_store("keep") as db:
            keep = SqlKeep(db)
            assert await keep.replace("fences", "run-1", None, b"\x003")
            assert not await keep.replace("fences", "run-1", None, b"4")
            assert not await keep.replace("fences", "run-1", b"\x002", b"4")
            assert await keep.replace("fences", "run-1", b"\x003", b"7")
            assert await keep.get("fences", "run-1") == b"7"

    asyncio.run(story())
