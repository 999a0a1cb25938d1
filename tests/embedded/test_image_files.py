"""The image files: whole files or none, on a disk that fills up, beside writers that die."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from whimbrel.domain.errors import Conflict, Unavailable
from whimbrel.embedded.free_space import FreeSpace
from whimbrel.embedded.image.file_store import CHUNK_BYTES, FileStore, TooLarge


async def blocks(number: int) -> AsyncIterator[bytes]:
    for _ in range(number):
        yield bytes(CHUNK_BYTES)


def failing_after(calls: int, code: int) -> Any:
    """Make a disk that does so many things and then fails."""
    left = calls

    async def offload(function: Any, *arguments: Any) -> Any:
        nonlocal left
        if not left:
            raise OSError(code, "no more")
        left -= 1
        return function(*arguments)

    return offload


@pytest.mark.parametrize("calls", range(4))
@pytest.mark.parametrize(("code", "error"), [(errno.ENOSPC, TooLarge), (errno.EIO, Unavailable)])
async def test_a_disk_that_fails_at_any_moment_leaves_nothing(
    tmp_path: Path, calls: int, code: int, error: type[Exception]
) -> None:
    files = FileStore(tmp_path, offload=failing_after(calls, code))
    with pytest.raises(error):
        async with files.stored(blocks(3)):
            pytest.fail("it was stored")
    assert os.listdir(tmp_path) == []


async def test_a_file_that_cannot_be_recorded_never_was(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    with pytest.raises(Conflict):
        async with files.stored(blocks(1)):
            raise Conflict("somebody was faster")
    assert os.listdir(tmp_path) == []


async def test_a_file_that_may_be_recorded_stays_until_a_sweep_knows(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    names: list[str] = []

    async def try_to_store() -> None:
        async with files.stored(blocks(1)) as stored:
            names.append(stored.name)
            raise Unavailable("the database does not say whether it did")

    for _ in range(2):
        with pytest.raises(Unavailable):
            await try_to_store()

    async def is_named(name: str) -> bool:
        return name == names[0]

    assert await files.sweep(is_named, 0.0) == []
    assert await files.sweep(is_named, 1e12) == [names[1]]
    assert os.listdir(tmp_path) == [names[0]]


async def test_a_sweep_leaves_writers_alone(tmp_path: Path) -> None:
    async def nobody(name: str) -> bool:
        return False

    files = FileStore(tmp_path)
    (tmp_path / "dead.part").write_bytes(b"half")

    async def interrupted() -> AsyncIterator[bytes]:
        yield b"first half, "
        assert await FileStore(tmp_path).sweep(nobody, 1e12) == ["dead.part"]
        yield b"second half"

    async with files.stored(interrupted()) as stored:
        assert await FileStore(tmp_path).sweep(nobody, 1e12) == []
    assert b"".join([chunk async for chunk in files.chunks(files.open(stored.name))]) == b"first half, second half"


async def test_a_file_that_is_removed_is_read_to_its_end(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    async with files.stored(blocks(2)) as stored:
        pass
    chunks = files.chunks(files.open(stored.name))
    first = await anext(chunks)
    files.discard(stored.name)
    assert len(first) + sum([len(chunk) async for chunk in chunks]) == 2 * CHUNK_BYTES


async def test_a_reserve_of_the_file_system_stays_free(tmp_path: Path) -> None:
    files = FileStore(tmp_path, reserved_bytes=1 << 62)
    with pytest.raises(TooLarge, match="no room left"):
        files.check_free(1)
    with pytest.raises(TooLarge, match="no room left"):
        async with files.stored(blocks(1)):
            pytest.fail("it was stored")
    assert os.listdir(tmp_path) == []


def test_the_reserve_is_a_part_of_the_file_system(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    free = found.f_bavail * found.f_frsize
    FreeSpace(tmp_path, 0).check(free * 2)  # the disk will say it itself
    with pytest.raises(OSError, match="reserved"):
        FreeSpace(tmp_path, None).check(free)
