"""The lease of a host in files of its agent's directory, and the processes and the clock of this boot.

Invariant: a file is overwritten in place, so that a full disk does not end a lease, and its checksum tells a reader
that it was faster than the writer. A lease need not survive a crash of the machine: none of its guests does.
"""

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from whimbrel.adapters import file_modes
from whimbrel.domain.errors import Unavailable
from whimbrel.ports.hosts.leases import Damaged, Fencing, Lease, ProcessId, Watch

T = TypeVar("T")

ENDS_WITHIN_S = 5.0
BYTES = 512
"""Of each file, more than any value has: a shorter one leaves nothing of a longer one behind."""
READS = 20


class LeaseFiles:
    """Implements ports.hosts.leases.Leases."""

    def __init__(self, directory: Path) -> None:
        self._lease = directory / "lease.json"
        self._watch = directory / "watchdog.json"
        self._fencings = directory / "fencings.jsonl"

    def lease(self) -> Lease | Damaged | None:
        return _read(self._lease, Lease)

    def write(self, lease: Lease) -> None:
        _write(self._lease, lease)

    def remove(self) -> None:
        _write_or_raise(self._lease, lambda: self._lease.unlink(missing_ok=True))

    def watch(self) -> Watch | None:
        found = _read(self._watch, Watch)
        return None if found == "damaged" else found

    def watched(self, watch: Watch) -> None:
        _write(self._watch, watch)

    def record(self, fencing: Fencing) -> None:
        _write_or_raise(self._fencings, lambda: self._append(msgspec.json.encode(fencing) + b"\n"))

    def fencings(self) -> list[Fencing]:
        try:
            lines = self._fencings.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        return [msgspec.json.decode(line, type=Fencing) for line in lines if line]

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self._fencings, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, file_modes.FILE)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read(file: Path, kind: type[T]) -> T | Damaged | None:
    for _ in range(READS):
        try:
            checksum, _, text = file.read_bytes().partition(b" ")
            if checksum == _checksum(text):
                return msgspec.json.decode(text, type=kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError):
            continue
    return "damaged"


def _write(file: Path, value: object) -> None:
    """Replace the contents for other processes of this machine; nothing is forced to the disk."""
    text = msgspec.json.encode(value).ljust(BYTES)
    content = _checksum(text) + b" " + text

    def act() -> None:
        there = file if file.exists() else file.with_name(f".{file.name}.{os.getpid()}")
        descriptor = os.open(there, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, file_modes.FILE)
        try:
            os.pwrite(descriptor, content, 0)
        finally:
            os.close(descriptor)
        if there != file:
            there.replace(file)

    _write_or_raise(file, act)


def _checksum(text: bytes) -> bytes:
    return b"%08x" % crc32(text)


def _write_or_raise(file: Path, act: Callable[[], Any]) -> None:
    try:
        act()
    except OSError as error:
        raise Unavailable(f"cannot write {file}: {error.strerror}") from error


class SystemBootClock:
    """Implements ports.hosts.leases.BootClock. Source: clock_gettime(2), CLOCK_BOOTTIME."""

    def __init__(self) -> None:
        self.boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


# Processes


def this_process() -> ProcessId:
    """Return the id of this process."""
    pid = os.getpid()
    started = _started(pid)
    assert started is not None
    return ProcessId(pid=pid, started=started)


async def end_process(process: ProcessId) -> None:
    """Kill a process, and wait for its end; fine if it has ended. Raises: Unavailable: it does not end."""
    try:
        descriptor = os.pidfd_open(process.pid)  # it stays the same process from here on
    except ProcessLookupError:
        return
    try:
        if _started(process.pid) != process.started:
            return  # the number was reused
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        ended, _, _ = await asyncio.to_thread(select.select, [descriptor], [], [], ENDS_WITHIN_S)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise Unavailable(f"process {process.pid} is another user's") from error
    finally:
        os.close(descriptor)
    if not ended:
        raise Unavailable(f"process {process.pid} does not end")


def _started(pid: int) -> int | None:
    """Return when a process was started, in ticks since the boot. Source: proc(5), field 22 of stat."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])
