"""Ends what tests leave running: the guard is a process that outlives the tests, however they end.

Invariant: every process that a test run starts, directly or not, inherits a mark of the run in its environment. The
guard waits on a pipe whose other end only the run holds. When the run is gone, even by kill -9, the guard gives marked
processes a moment to end by themselves and kills the others. Linux only: it reads /proc.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

MARK = "WHIMBREL_TEST_RUN"
GRACE_S = 10.0  # for fixtures' own guards, which also tidy up
POLL_S = 0.1

_guards: list[subprocess.Popen[bytes]] = []
"""Holds the pipe open for as long as this process lives."""


def start(grace_s: float = GRACE_S) -> None:
    """Start the guard of this run, unless a process above this one has started it."""
    if MARK in os.environ or not Path("/proc/self/environ").exists():
        return
    mark = uuid.uuid4().hex
    words = [sys.executable, __file__, mark, str(grace_s)]
    _guards.append(subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True))
    os.environ[MARK] = mark


def marked(mark: str) -> list[int]:
    """List the processes of a run by id; zombies have no environment any more."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append(int(directory.name))
    return found


def end_all(mark: str, grace_s: float) -> None:
    """Wait until no process of the run is left; kill those that stay longer than the grace."""
    ends_at = time.monotonic() + grace_s
    while left := marked(mark):
        if time.monotonic() > ends_at:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_all(sys.argv[1], float(sys.argv[2]))
