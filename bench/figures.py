"""What a benchmark reads of processes, and how it prints what it measured, with a figure of the machine."""

import json
import os
import platform
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

LOOPS, COMMITS = 2_000_000, 1000


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used so far, its threads' included, to the microsecond.

    Source: clock_getcpuclockid(3), whose number Linux makes in this way; /proc/PID/stat has the same in ticks of 10 ms.
    """
    return time.clock_gettime((~pid << 3) | 2)


def memory_mib(pid: int) -> float:
    """Return a process's resident memory."""
    return _memory_mib(pid, "VmRSS:")


def peak_memory_mib(pid: int) -> float:
    """Return the most resident memory that a process ever had."""
    return _memory_mib(pid, "VmHWM:")


def _memory_mib(pid: int, kind: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(kind))
    return int(line.split()[1]) / 1024


@cache
def machine() -> dict[str, float | int | str]:
    """Measure the machine: processor time of a loop in Python, and of 1,000 commits to SQLite, each synced."""
    return {
        "loop_ms": round(_processor_ms(_loop), 1),
        "commits_ms": round(_processor_ms(_commit), 1),
        "processors": os.cpu_count() or 0,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }


def calibrate() -> None:
    """Measure the machine again, and print what it is like now."""
    machine.cache_clear()
    print(json.dumps({"bench": "calibration", **machine()}), flush=True)


def _processor_ms(work: Callable[[], None]) -> float:
    before = time.process_time()
    work()
    return (time.process_time() - before) * 1000


def _loop() -> None:
    total = 0
    for number in range(LOOPS):
        total += number & 3


def _commit() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="whimbrel-bench-") as directory,
        closing(sqlite3.connect(Path(directory) / "one.sqlite", isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE written (number INTEGER PRIMARY KEY)")
        for _ in range(COMMITS):
            connection.execute("INSERT INTO written DEFAULT VALUES")


def report(name: str, **figures: float | int | str | None) -> None:
    """Print one benchmark's line; before the first one, what the machine is like."""
    if not machine.cache_info().currsize:
        calibrate()
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in figures.items()}
    print(json.dumps({"bench": name, **rounded}), flush=True)
