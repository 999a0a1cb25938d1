"""Exports a stopped guest's disk to another host of the cell: a read-only qemu-nbd with a key of its own.

Invariant: an export is its process, whose command line contains all its data, so any later process finds it again.
Reading requires the key (TLS with a pre-shared key), which is deleted with the export: treat `DiskExport.location` as a
secret.
Source: qemu-nbd(8), tls-creds-psk.
"""

import contextlib
import secrets
import shutil
import socket
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

from whimbrel.adapters.libvirt.slots import SlotDirectory
from whimbrel.adapters.qemu import durable_files, own_processes
from whimbrel.adapters.qemu.durable_files import Owner, in_thread
from whimbrel.adapters.qemu.own_processes import Process
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.guest import DiskExport, DiskName

PROGRAM = "qemu-nbd"
SCHEME = "nbd"
USER = "whimbrel"
KEY_FILE = "keys.psk"  # the name that QEMU expects
KEY_BYTES = 32
PORT_TRIES = 5


class Exports:
    """The exports of one host. address: the listen address, at which readers connect."""

    def __init__(self, tools: Tools, address: str) -> None:
        self._tools = tools
        self._address = address

    async def open(self, slot: SlotDirectory, name: DiskName) -> DiskExport:
        """Export a disk. Idempotent: returns the existing export."""
        info = await self._tools.info(slot.disk_file(name), "qcow2")
        server, key = await self._found(slot, name) or await self._started(slot, name)
        address = server.option("--bind")
        host = f"[{address}]" if ":" in address else address
        location = f"nbds://{USER}:{key}@{host}:{server.option('--port')}"
        return DiskExport(scheme=SCHEME, location=location, size_bytes=info.virtual_size)

    async def close(self, slot: SlotDirectory) -> None:
        """End the exports of all its disks. Idempotent."""
        await own_processes.end(await own_processes.at_work(PROGRAM, slot.path))
        await in_thread(lambda: _forget([slot.keys(name) for name in get_args(DiskName)]))

    async def _found(self, slot: SlotDirectory, name: DiskName) -> tuple[Process, str] | None:
        servers = await _servers(slot, name)
        key = await in_thread(lambda: _read_key(slot.keys(name)))
        return (servers[0], key) if len(servers) == 1 and key else None

    async def _started(self, slot: SlotDirectory, name: DiskName) -> tuple[Process, str]:
        await own_processes.end(await _servers(slot, name))
        await in_thread(lambda: _forget([slot.keys(name)]))
        key = secrets.token_hex(KEY_BYTES)
        await in_thread(lambda: _write_key(slot.keys(name), key, slot.owner))
        await self._serve(slot, name)
        servers = await _servers(slot, name)
        if len(servers) != 1:
            raise Unavailable("the disk's server ended at once")
        return servers[0], key

    async def _serve(self, slot: SlotDirectory, name: DiskName) -> None:
        disk, keys = slot.disk_file(name), slot.keys(name)
        for tries_left in reversed(range(PORT_TRIES)):
            try:
                # With --fork it returns once it listens, and leaves a daemon that is not a child process.
                await self._tools.run(
                    *(PROGRAM, "--fork", "--persistent", "--read-only", "--format", "qcow2", "--shared", "0"),
                    *(
                        "--object",
                        f"tls-creds-psk,id=tls,endpoint=server,dir={_quoted(keys)}",
                        "--tls-creds",
                        "tls",
                    ),
                    *("--bind", self._address, "--port", str(_free_port(self._address)), str(disk)),
                )
                return
            except Unavailable as error:
                if "Address already in use" not in error.reason or not tries_left:
                    raise


@contextlib.asynccontextmanager
async def reading(export: DiskExport, slot: SlotDirectory) -> AsyncIterator[list[str]]:
    """Yield the arguments with which qemu-img reads an export; its key file exists meanwhile."""
    if export.scheme != SCHEME:
        raise Refused(f"this host cannot read a disk that is offered as {export.scheme!r}")
    url = urlsplit(export.location)
    keys = slot.path / "import"
    await in_thread(lambda: _write_key(keys, url.password or "", slot.owner))
    try:
        yield [
            *("--object", f"tls-creds-psk,id=tls,endpoint=client,username={url.username},dir={_quoted(keys)}"),
            "--image-opts",
            f"driver=nbd,host={url.hostname},port={url.port},tls-creds=tls",
        ]
    finally:
        shutil.rmtree(keys, ignore_errors=True)


def _quoted(path: Path) -> str:
    """Quote a path for QEMU's option lists."""
    return str(path).replace(",", ",,")


async def _servers(slot: SlotDirectory, name: DiskName) -> list[Process]:
    return await own_processes.at_work(PROGRAM, slot.disk_file(name))


def _forget(directories: Iterable[Path]) -> None:
    for keys in directories:
        shutil.rmtree(keys, ignore_errors=True)


def _read_key(keys: Path) -> str | None:
    try:
        return (keys / KEY_FILE).read_text().strip().partition(":")[2]
    except FileNotFoundError:
        return None


def _write_key(keys: Path, key: str, owner: Owner | None) -> None:
    durable_files.make_directory(keys, owner)
    keys.chmod(0o700)
    durable_files.write(keys / KEY_FILE, f"{USER}:{key}\n".encode(), owner)


def _free_port(address: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        listener.bind((address, 0))
        port: int = listener.getsockname()[1]
        return port
