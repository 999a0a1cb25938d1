"""The one qemu-storage-daemon of a cloud, with an NBD server for all volumes in use. It survives this process.

Invariant: it is found by its command line, never by remembered state. It keeps its port as long as the directory
exists, so that guests find their volumes again after a restart.
Source: qemu-storage-daemon(1).
"""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from whimbrel.adapters.qemu import durable_files, own_processes
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.adapters.qemu.qmp import Monitor, conversation
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain.errors import Unavailable

PROGRAM = "qemu-storage-daemon"


class StorageDaemon:
    """directory: for its socket, used by nothing else. port: 0: choose a free one and keep it."""

    def __init__(self, directory: Path, address: str, port: int) -> None:
        self._directory = directory
        self._tools = Tools(None)
        self._port = port
        self.address = address

    @property
    def _socket(self) -> Path:
        return self._directory / "qmp.sock"

    @property
    def _port_file(self) -> Path:
        return self._directory / "port"

    async def port(self) -> int:
        """Return the port of its NBD server."""
        if not self._port:
            self._port = await in_thread(self._kept_port)
        return self._port

    async def runs(self) -> bool:
        return bool(await self._at_work())

    @asynccontextmanager
    async def told(self) -> AsyncIterator[Monitor]:
        """Open a conversation; start the daemon if necessary. Raises: Refused: it is not installed; Unavailable."""
        if not await self.runs():
            await self._start()
        async with conversation(self._socket) as monitor:
            yield monitor

    async def end(self) -> None:
        """End the daemon, which disconnects all users of volumes. Idempotent."""
        await own_processes.end(await self._at_work())

    async def _at_work(self) -> list[own_processes.Process]:
        return await own_processes.at_work(PROGRAM, self._directory)

    async def _start(self) -> None:
        await in_thread(self._make_room)
        port = await self.port()
        try:
            await self._tools.run(
                *(PROGRAM, "--daemonize", "--pidfile", str(self._directory / "pid")),
                # A relative path, because a socket's path is limited to 107 bytes.
                *("--chardev", f"socket,id=qmp,path={self._socket.name},server=on,wait=off"),
                *("--monitor", "chardev=qmp"),
                *("--nbd-server", f"addr.type=inet,addr.host={self.address},addr.port={port},max-connections=0"),
                directory=self._directory,
            )
        except Unavailable as error:
            if "in use" in error.reason:
                raise Unavailable(
                    f"port {port} of {self.address}, at which volumes are served, is in use: end the program"
                    " that uses it, or name another nbd_port"
                ) from None
            raise

    def _make_room(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._socket.unlink(missing_ok=True)

    def _kept_port(self) -> int:
        try:
            return int(self._port_file.read_text())
        except (FileNotFoundError, ValueError):
            pass
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET) as listener:
            listener.bind((self.address, 0))
            port: int = listener.getsockname()[1]
        durable_files.write(self._port_file, f"{port}\n".encode(), None)
        return port
