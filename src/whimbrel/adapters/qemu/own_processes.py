"""Finds processes by their command lines: Whimbrel's, even if they outlived the process that started them.

Invariant: /proc is read each time; a pid file can be late, stale or reused. A zombie has no command line and so counts
as dead, which it is (some machines reap orphans seconds late).
"""

import asyncio
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.domain.errors import Unavailable

DIES_WITHIN_S = 5.0
POLL_S = 0.01


@dataclass(frozen=True)
class Process:
    pid: int
    command: tuple[str, ...]

    def option(self, name: str) -> str:
        """Return the value that follows an option."""
        return self.command[self.command.index(name) + 1]


async def at_work(program: str | tuple[str, ...], path: Path) -> list[Process]:
    """Return the processes of this program that have `path`, or a path below it, on their command line.

    program: prefixes of the program's name.
    """
    named = await in_thread(lambda: _naming(path))
    return [process for process in named if os.path.basename(process.command[0]).startswith(program)]


def _naming(path: Path) -> list[Process]:
    alive = (Process(int(entry.name), _command(int(entry.name))) for entry in Path("/proc").glob("[0-9]*"))
    return [process for process in alive if any(_names(word, path) for word in process.command)]


async def end(processes: list[Process]) -> None:
    """Kill processes and wait for their end. Raises: Unavailable: one does not die."""
    for process in processes:
        _kill(process)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DIES_WITHIN_S
    while alive := [process.pid for process in processes if not _is_dead(process)]:
        if loop.time() > deadline:
            raise Unavailable(f"processes {alive} do not end")
        await asyncio.sleep(POLL_S)


def _is_dead(process: Process) -> bool:
    """Check whether all resources are released: memory goes first, files and sockets with the last thread."""
    command = _command(process.pid)
    if command:
        return command != process.command  # the pid was reused
    try:
        threads = os.listdir(f"/proc/{process.pid}/task")
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return len(threads) <= 1 and state in "ZX"


def _kill(process: Process) -> None:
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise Unavailable(f"process {process.pid} is another user's") from error


def _command(pid: int) -> tuple[str, ...]:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it is gone
        return ()
    return tuple(word.decode(errors="replace") for word in raw.rstrip(b"\0").split(b"\0")) if raw else ()


def _names(word: str, path: Path) -> bool:
    return word == str(path) or f"{path}/" in word
