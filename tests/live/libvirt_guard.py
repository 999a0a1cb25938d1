"""Keeps the libvirtds of a test run, as a process of its own: `libvirt_guard.py ROOT HOST...`.

Invariant: when its standard input ends, it kills all that it started or that works under ROOT and
removes ROOT. It also collects orphaned guests at once, which some machines do seconds late.
Each line on standard input is the name of a host whose daemon shall run; each is answered by a line.
"""

import asyncio
import contextlib
import ctypes
import os
import select
import shutil
import sys
from pathlib import Path

from whimbrel.adapters.libvirt.daemon import PrivateDaemon

PR_SET_CHILD_SUBREAPER = 36
REAP_EVERY_S = 0.02


def main(root: Path, names: list[str]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    daemons = {name: PrivateDaemon(root / name, root / "probes") for name in names}
    try:
        serve(daemons)
    finally:
        for daemon in daemons.values():
            asyncio.run(daemon.power_off())
        shutil.rmtree(root, ignore_errors=True)


def serve(daemons: dict[str, PrivateDaemon]) -> None:
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], REAP_EVERY_S)
        if readable:
            name = sys.stdin.readline().strip()
            if not name:
                return
            asyncio.run(daemons[name].start())
            print(name, flush=True)
        reap()


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
