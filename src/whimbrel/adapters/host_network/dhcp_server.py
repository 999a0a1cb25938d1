"""A dnsmasq of this host: the DHCP server in the namespace of a network, or what sends a router's advertisements.

Invariant: it survives the agent, and is found again by its command line: a process number alone may be that of another.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path

from whimbrel.adapters.host_network.commands import run_inside
from whimbrel.adapters.host_network.dhcp_files import DhcpFiles
from whimbrel.domain.errors import Unavailable

READABLE = 0o644
ENTERABLE = 0o755
ENDS_WITHIN_POLLS = 250
POLL_S = 0.02


class DhcpServer:
    """directory: of its files; dnsmasq reads them as a user of its own."""

    def __init__(self, namespace: str, directory: Path) -> None:
        self._namespace = namespace
        self._directory = directory

    async def ensure(self, files: DhcpFiles | None) -> None:
        """Ensure that the server runs with these files. None: that there is none."""
        if files is None:
            await self.remove()
            return
        _make_enterable(self._directory)
        is_new = self._write("settings", files.settings)
        has_changed = [self._write("hosts", files.hosts), self._write("options", files.options)]
        pid = self.pid()
        if pid and is_new:
            await self._end(pid)
            pid = None
        if pid is None:
            await run_inside(self._namespace, "dnsmasq", f"--conf-file={self._settings}")
        elif any(has_changed):
            os.kill(pid, signal.SIGHUP)

    async def remove(self) -> None:
        """End the server and remove its files. Idempotent."""
        if pid := self.pid():
            await self._end(pid)
        shutil.rmtree(self._directory, ignore_errors=True)

    def pid(self) -> int | None:
        """Return the process id of the running server; None: there is none."""
        try:
            pid = int((self._directory / "pid").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if f"--conf-file={self._settings}".encode() in words else None

    async def _end(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        for _ in range(ENDS_WITHIN_POLLS):
            if self.pid() != pid:
                return
            await asyncio.sleep(POLL_S)
        raise Unavailable(f"the dnsmasq of {self._namespace} does not end")

    @property
    def _settings(self) -> Path:
        return self._directory / "settings"

    def _write(self, name: str, text: str) -> bool:
        """Write a file as a whole. Return whether it differs from the one that was there."""
        path = self._directory / name
        if path.exists() and path.read_text() == text:
            return False
        new = path.with_suffix(".new")
        new.write_text(text)
        new.chmod(READABLE)
        new.replace(path)
        return True


def _make_enterable(directory: Path) -> None:
    """Make a directory, with those above it, that every user may enter, whatever this process's umask is."""
    if not directory.exists():
        _make_enterable(directory.parent)
        directory.mkdir(exist_ok=True)
        directory.chmod(ENTERABLE)
