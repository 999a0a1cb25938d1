"""Disk tools, of QEMU and others: inspect, copy, and grow images.

Invariant: an image is read in its declared format, never in a format detected from its contents; an image with a
backing file is rejected, because it could name any file of the host.
"""

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.adapters.qemu.durable_files import Owner, in_thread
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.ports.hosts.hypervisor import Percent

STALLED_S = 120.0
SHOWN_BYTES = 500
PACKAGES = {"qemu-storage-daemon": "qemu-system-x86", "mkfs.ext4": "e2fsprogs", "mkswap": "util-linux"}
SYSTEM_PLACES = "/usr/sbin:/sbin"
"""Where mkfs is installed, which is not in every user's PATH."""

PROGRESS = re.compile(rb"\((\d+)\.\d+/100%\)")


class DiskInfo(msgspec.Struct, frozen=True, rename="kebab"):
    """Fields of the output of `qemu-img info`."""

    format: str
    virtual_size: int
    backing_filename: str | None = None
    backing_filename_format: str | None = None
    format_specific: dict[str, Any] = {}

    @property
    def has_data_file(self) -> bool:
        return "data-file" in self.format_specific.get("data", {})

    @property
    def refers_elsewhere(self) -> bool:
        return bool(self.backing_filename) or self.has_data_file


class ChainFile(msgspec.Struct, frozen=True):
    """Fields of a file in the output of `qemu-img info --backing-chain`."""

    filename: str
    format: str


class Tools:
    """Runs the tools as the owner of the files, so that a malicious image cannot attack a root process."""

    def __init__(self, owner: Owner | None) -> None:
        self._owner = owner

    async def info(self, path: Path, disk_format: str) -> DiskInfo:
        """Read a disk's header. Raises: NotFound: no such file; Refused: not of this format, or incomplete."""
        if not await in_thread(path.exists):
            raise NotFound(f"no disk: {path.name}")
        info = await self.header(path, disk_format)
        if info.refers_elsewhere:
            raise Refused("the image refers to another file")
        return info

    async def header(self, path: Path, disk_format: str) -> DiskInfo:
        """Read the header of a file that may have another one below it, which is not opened. Raises: Refused."""
        try:
            answer = await self.run("qemu-img", "info", "-U", "--output=json", "-f", disk_format, str(path))
        except Unavailable as error:
            raise Refused(f"not a readable {disk_format} image: {error.reason}") from error
        return msgspec.json.decode(answer, type=DiskInfo)

    async def chain(self, active: Path) -> dict[Path, str]:
        """Return the files of a volume with their formats, from the active one, in qcow2, down.

        Only of a volume's files: a guest's own disk, which its user wrote as an image, could name any file.
        Raises: Refused: it is no such file.
        """
        try:
            answer = await self.run(
                "qemu-img", "info", "-U", "--backing-chain", "--output=json", "-f", "qcow2", str(active)
            )
        except Unavailable as error:
            raise Refused(f"not a chain of qcow2 files: {error.reason}") from error
        return {Path(file.filename): file.format for file in msgspec.json.decode(answer, type=list[ChainFile])}

    async def create(self, target: Path, size_bytes: int) -> None:
        """Create an empty disk."""
        await self.run("qemu-img", "create", "-q", "-f", "qcow2", str(target), str(size_bytes))

    async def copy(self, source: list[str], target: Path, percent: Percent, compress: bool = False) -> None:
        """Write a complete qcow2 copy to `target`. source: the arguments that select the input."""
        packed = ["-c"] if compress else []
        await self.run("qemu-img", "convert", "-p", *packed, "-O", "qcow2", *source, str(target), percent=percent)

    async def grow(self, disk: Path, size_bytes: int) -> None:
        await self.run("qemu-img", "resize", "-q", "-f", "qcow2", str(disk), str(size_bytes))

    async def run(
        self, program: str, *arguments: str, percent: Percent | None = None, directory: Path | None = None
    ) -> bytes:
        """Run a tool and return its output; kill it if the caller is cancelled.

        The last argument of a tool that reports progress must be the file that it writes.
        Raises: Refused: not installed, or the disk is full; Unavailable: it failed, with its message.
        """
        process = await asyncio.create_subprocess_exec(
            *self._command(program, *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=directory,
        )
        assert process.stdout
        assert process.stderr
        try:
            complaint = asyncio.ensure_future(process.stderr.read())
            printed = [chunk async for chunk in _chunks(process.stdout, Path(arguments[-1]), percent)]
            said = (await complaint).decode(errors="replace").strip()[:SHOWN_BYTES]
            code = await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if code:
            raise _failure(f"{program}: {said or f'ended with {code}'}")
        return b"".join(printed)

    def _command(self, program: str, *arguments: str) -> list[str]:
        found = shutil.which(program) or shutil.which(program, path=SYSTEM_PLACES)
        if not found:
            raise Refused(f"{program} is not installed: apt-get install {PACKAGES.get(program, 'qemu-utils')}")
        if not self._owner:
            return [found, *arguments]
        user, group = str(self._owner.uid), str(self._owner.gid)
        return ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", found, *arguments]


def _failure(reason: str) -> Refused | Unavailable:
    return Refused(reason) if "No space left on device" in reason else Unavailable(reason)


async def _chunks(stream: asyncio.StreamReader, target: Path, percent: Percent | None) -> AsyncIterator[bytes]:
    """Yield a tool's output and report its progress. Raises: Unavailable: no progress any more."""
    written = -1
    while True:
        try:
            chunk = await asyncio.wait_for(stream.read(65536), STALLED_S)
        except TimeoutError:
            # A peer that lost power never closes its connection: without output and without new data it counts as dead.
            if written == (written := _written(target)):
                raise Unavailable(f"nothing moved for {STALLED_S:.0f} s") from None
            continue
        if not chunk:
            return
        if percent and (seen := PROGRESS.findall(chunk)):
            percent(int(seen[-1]))
        yield chunk


def _written(target: Path) -> int:
    return target.stat().st_blocks if target.exists() else 0
