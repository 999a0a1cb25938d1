"""What every keep does: values by space and key, durable when put returns."""

from collections.abc import AsyncIterator

import pytest

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.key_value_store import SqlKeyValueStore


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[SqlKeyValueStore]:
    async with open_store("keep") as db:
        yield SqlKeyValueStore(db)


async def test_gives_back_what_was_put_last(store: SqlKeyValueStore) -> None:
    assert await store.get("fences", "run-1") is None
    await store.put("fences", "run-1", b"\x00one")
    await store.put("fences", "run-1", b"two")
    await store.put("jobs", "run-1", b"other")
    assert await store.get("fences", "run-1") == b"two"
    assert await store.get("jobs", "run-1") == b"other"


async def test_scans_one_space_only(store: SqlKeyValueStore) -> None:
    await store.put("jobs", "b", b"2")
    await store.put("jobs", "a", b"1")
    await store.put("fences", "c", b"3")
    assert await store.scan("jobs") == {"a": b"1", "b": b"2"}
    assert await store.scan("nothing") == {}


async def test_delete_is_fine_twice(store: SqlKeyValueStore) -> None:
    await store.put("jobs", "a", b"1")
    await store.delete("jobs", "a")
    await store.delete("jobs", "a")
    assert await store.scan("jobs") == {}


async def test_replaces_only_what_is_there_as_it_was_read(store: SqlKeyValueStore) -> None:
    assert await store.replace("fences", "run-1", None, b"\x003")
    assert not await store.replace("fences", "run-1", None, b"4")
    assert not await store.replace("fences", "run-1", b"\x002", b"4")
    assert await store.replace("fences", "run-1", b"\x003", b"7")
    assert await store.get("fences", "run-1") == b"7"


async def test_a_staged_value_is_there_with_the_next_write(store: SqlKeyValueStore) -> None:
    staged = await store.stage("fences", "run-1", None, b"3")
    assert staged
    await store.put("guests", "one", b"runs")
    assert await store.get("fences", "run-1") == b"3"
    await staged.durable()
    assert await store.stage("fences", "run-1", b"2", b"4") is None
    staged = await store.stage("fences", "run-1", b"3", b"4")
    assert staged
    await staged.durable()
    assert await store.get("fences", "run-1") == b"4"
