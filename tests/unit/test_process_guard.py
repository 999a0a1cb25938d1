"""Processes that a killed test run leaves behind are ended; others are left alone."""

import os
import select
import signal
import subprocess
import sys

import pytest

from tests import process_guard

RUN = """
import os, subprocess, sys
from tests import process_guard
process_guard.start(0.0)
child = "import subprocess; print(subprocess.Popen(['sleep', '3600'], start_new_session=True).pid, flush=True)"
subprocess.Popen([sys.executable, "-c", child + "; input()"], start_new_session=True)
print(os.getpid(), flush=True)
input()
"""


def gone(pid: int) -> None:
    """Wait until a process has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([handle], [], [])
    finally:
        os.close(handle)


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="the guard reads Linux's /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_run_started_does_not_outlive_it(number: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != process_guard.MARK}
    with subprocess.Popen(["sleep", "3600"], env=environment) as bystander:
        words = [sys.executable, "-c", RUN]
        with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout
            pids = [int(run.stdout.readline()) for _ in range(2)]
            [grandchild] = [pid for pid in pids if pid != run.pid]
            run.send_signal(number)
            gone(grandchild)
        assert bystander.poll() is None
        bystander.kill()


def test_a_run_within_a_run_has_the_guard_of_the_outer_one() -> None:
    before = list(process_guard._guards)
    process_guard.start()
    assert process_guard._guards == before
    if os.path.exists("/proc/self/environ"):
        assert process_guard.MARK in os.environ
