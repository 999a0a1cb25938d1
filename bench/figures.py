"""What a benchmark reads of processes, and how it prints what it measured."""

import json
import time
from pathlib import Path


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


def report(name: str, **figures: float | int | str | None) -> None:
    """Print one benchmark's line."""
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in figures.items()}
    print(json.dumps({"bench": name, **rounded}), flush=True)
