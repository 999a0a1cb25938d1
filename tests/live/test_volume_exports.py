"""Volumes served over NBD by a real qemu-storage-daemon, read and written by QEMU's own tools."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.prerequisites import missing
from whimbrel.adapters.qemu import own_processes
from whimbrel.adapters.qemu.convert import QemuConverter
from whimbrel.adapters.qemu.storage_daemon import PROGRAM, StorageDaemon
from whimbrel.adapters.qemu.volume_exports import NbdExports
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.ports.embedded.volume_backing import Export

MIB = 1 << 20
VOLUME = "6a09e667-f3bc-4908-b2fb-1366ea957d3e"


@pytest.fixture(autouse=True)
def tools() -> None:
    for program in (PROGRAM, "qemu-io", "qemu-img"):
        if not shutil.which(program):
            missing(f"{program} is needed", "apt-get install qemu-system-x86 qemu-utils")


@pytest.fixture
def directory() -> str:
    """Where a test has its files, below its directory."""
    return ""


@pytest.fixture
def file(tmp_path: Path, directory: str) -> Path:
    """A volume of 8 MiB."""
    file = tmp_path / directory / "volume"
    file.parent.mkdir(exist_ok=True)
    file.touch(mode=0o600)
    with file.open("r+b") as opened:
        opened.truncate(8 * MIB)
    return file


@pytest.fixture
async def exports(file: Path) -> AsyncIterator[NbdExports]:
    daemon = StorageDaemon(file.parent / "nbd", "127.0.0.1", 0)
    try:
        yield NbdExports(daemon)
    finally:
        await daemon.end()


def export(file: Path, name: str = "secret", writable: bool = True) -> Export:
    return Export(name, VOLUME, file, writable)


async def url(exports: NbdExports, wanted: Export) -> str:
    connection = await exports.open(wanted)
    assert connection["driver_volume_type"] == "nbd"
    data = connection["data"]
    return f"nbd://{data['server']}:{data['port']}/{data['export']}"


def beginning(file: Path, size: int) -> bytes:
    return file.read_bytes()[:size]


async def io(address: str, *commands: str) -> bool:
    """Read and write as a guest does; return whether all went well."""
    words = [word for command in commands for word in ("-c", command)]
    process = await asyncio.create_subprocess_exec(
        *("qemu-io", "-f", "raw", *words, address), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return process.returncode == 0 and b"verification failed" not in said and b"error" not in said.lower()


async def test_what_one_attachment_writes_the_other_reads(exports: NbdExports, file: Path) -> None:
    first, second = await url(exports, export(file)), await url(exports, export(file, "other"))
    assert await io(first, "write -P 0x41 0 4k")
    assert await io(second, "read -P 0x41 0 4k", "write -P 0x42 4k 4k")
    assert await io(first, "read -P 0x42 4k 4k")
    assert beginning(file, 8192) == b"A" * 4096 + b"B" * 4096
    assert await exports.open(export(file)) == await exports.open(export(file))


async def test_an_attachment_that_ends_is_disconnected_and_the_other_is_not(exports: NbdExports, file: Path) -> None:
    first, second = await url(exports, export(file)), await url(exports, export(file, "other"))
    for _ in range(2):
        await exports.close("secret")
    assert not await io(first, "read 0 4k")
    assert await io(second, "read 0 4k")
    await exports.close("other")
    assert not await io(second, "read 0 4k")
    with file.open("r+b") as opened:
        opened.write(b"free")  # nobody has it open: it can be served anew, and shows what was written
    assert await io(await url(exports, export(file)), f"read -P {ord('f')} 0 1")


async def test_nothing_is_closed_where_nothing_runs(exports: NbdExports, file: Path, tmp_path: Path) -> None:
    async def nothing() -> list[Export]:
        return []

    await exports.close("secret")
    await exports.keep(nothing)
    assert await own_processes.at_work(PROGRAM, tmp_path) == []


async def test_a_read_only_attachment_does_not_write(exports: NbdExports, file: Path) -> None:
    address = await url(exports, export(file, writable=False))
    assert not await io(address, "write -P 0x41 0 4k")
    assert beginning(file, 4) == bytes(4)


async def test_what_was_served_is_served_again_after_the_daemon_died(
    exports: NbdExports, file: Path, tmp_path: Path
) -> None:
    wanted = [export(file), export(file, "other")]

    async def all_of_them() -> list[Export]:
        return wanted

    addresses = [await url(exports, each) for each in wanted]
    assert await io(addresses[0], "write -P 0x41 0 4k", "flush")
    await own_processes.end(await own_processes.at_work(PROGRAM, tmp_path))
    assert not await io(addresses[0], "read 0 4k")
    await exports.keep(all_of_them)
    for address in addresses:  # the same: guests that lost it come back
        assert await io(address, "read -P 0x41 0 4k")
    wanted.pop()
    await exports.keep(all_of_them)
    assert not await io(addresses[1], "read 0 4k")
    assert await io(addresses[0], "read 0 4k")
    wanted.clear()
    await exports.keep(all_of_them)
    assert await own_processes.at_work(PROGRAM, tmp_path) == []  # nobody is left for whom it would run


class Guest:
    """A qemu-io that keeps its connection, as a guest's QEMU does, and comes back where it lost it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def of(cls, address: str) -> "Guest":
        where = urlsplit(address)
        options = f"driver=nbd,host={where.hostname},port={where.port},export={where.path[1:]},reconnect-delay=30"
        words = ("qemu-io", "--image-opts", options)
        pipe = subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT))

    async def does(self, command: str) -> bool:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{command}\n".encode())
        while line := await self._process.stdout.readline():
            if b"ops;" in line:
                return True
            if b"failed" in line or b"error" in line.lower():
                return False
        return False

    async def end(self) -> None:
        self._process.kill()
        await self._process.wait()


async def test_a_guest_notices_neither_the_daemon_s_death_nor_that_its_volume_grows(
    exports: NbdExports, file: Path, tmp_path: Path
) -> None:
    wanted = [export(file)]

    async def all_of_them() -> list[Export]:
        return wanted

    async def enlarge() -> None:
        with file.open("r+b") as opened:
            opened.truncate(16 * MIB)

    guest = await Guest.of(await url(exports, wanted[0]))
    try:
        assert await guest.does("write -P 0x41 0 4k")
        await own_processes.end(await own_processes.at_work(PROGRAM, tmp_path))
        reading = asyncio.create_task(guest.does("read -P 0x41 0 4k"))
        await exports.keep(all_of_them)
        assert await reading
        await exports.grow(wanted, enlarge)
        assert await guest.does("read -P 0x41 0 4k")
        assert await guest.does("write -P 0x42 4k 4k")
        await exports.close("secret")
        assert beginning(file, 8192) == b"A" * 4096 + b"B" * 4096
    finally:
        await guest.end()


async def test_whoever_comes_after_us_finds_the_daemon(exports: NbdExports, file: Path, tmp_path: Path) -> None:
    address = await url(exports, export(file))
    other = NbdExports(StorageDaemon(tmp_path / "nbd", "127.0.0.1", 0))
    assert await url(other, export(file)) == address
    assert len(await own_processes.at_work(PROGRAM, tmp_path)) == 1
    await other.close("secret")
    assert not await io(address, "read 0 4k")


async def test_a_volume_in_use_grows(exports: NbdExports, file: Path) -> None:
    address = await url(exports, export(file))
    assert not await io(address, "write -P 0x41 9M 4k")

    async def enlarge() -> None:
        with file.open("r+b") as opened:
            opened.truncate(16 * MIB)

    await exports.grow([export(file)], enlarge)
    assert await io(address, "write -P 0x41 9M 4k")


async def test_a_volume_in_use_is_copied_and_its_copy_is_sparse(
    exports: NbdExports, file: Path, tmp_path: Path
) -> None:
    address, copy = await url(exports, export(file)), tmp_path / "copy"
    assert await io(address, "write -P 0x41 1M 64k")
    for _ in range(2):
        assert await exports.copy(VOLUME, file, copy)
    assert await io(address, "write -P 0x42 1M 64k")
    content = copy.read_bytes()
    assert len(content) == 8 * MIB
    assert content[MIB : MIB + 65536] == b"A" * 65536
    assert copy.stat().st_blocks * 512 < MIB
    await exports.close("secret")
    unused = tmp_path / "unused"
    await exports.copy(VOLUME, file, unused)
    assert unused.read_bytes()[MIB] == ord("B")


async def test_a_copy_that_cannot_be_made_is_said(exports: NbdExports, file: Path, tmp_path: Path) -> None:
    await exports.open(export(file))
    with pytest.raises(Unavailable):
        await exports.copy(VOLUME, file, tmp_path / "no such directory" / "copy")
    assert await exports.copy(VOLUME, file, tmp_path / "copy")


@pytest.mark.parametrize("directory", ["d" * 120])
async def test_a_path_may_be_long(exports: NbdExports, file: Path) -> None:
    assert await io(await url(exports, export(file)), "read 0 4k")


async def test_an_image_becomes_raw_unless_it_lies_or_refers_elsewhere(tmp_path: Path) -> None:
    def img(*words: str) -> None:
        subprocess.run(["qemu-img", *words], check=True, capture_output=True)

    image, backed, raw = tmp_path / "image", tmp_path / "backed", tmp_path / "raw"
    img("create", "-f", "qcow2", str(image), "4M")
    img("create", "-f", "qcow2", "-b", "/etc/passwd", "-F", "raw", str(backed), "1M")

    img("create", "-f", "qcow2", str(filled := tmp_path / "filled"), "1G")
    subprocess.run(["qemu-io", "-c", "write -P 5 0 3M", str(filled)], check=True, capture_output=True)
    assert await QemuConverter().data_bytes(image, "qcow2") == 0
    assert await QemuConverter().data_bytes(filled, "qcow2") == 3 * MIB
    with pytest.raises(Refused, match="another file"):
        await QemuConverter().data_bytes(backed, "qcow2")
    await QemuConverter().to_raw(image, "qcow2", raw, 4 * MIB)
    assert raw.stat().st_size == 4 * MIB
    with pytest.raises(Refused, match="more than"):
        await QemuConverter().to_raw(image, "qcow2", raw, MIB)
    with pytest.raises(Refused, match="another file"):
        await QemuConverter().to_raw(backed, "qcow2", raw, 4 * MIB)
    with pytest.raises(Refused):
        await QemuConverter().to_raw(raw, "qcow2", tmp_path / "other", 4 * MIB)
