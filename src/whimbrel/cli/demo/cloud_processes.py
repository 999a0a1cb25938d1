"""The processes of the demo's cloud: one with the API and the hosts, and conductors that can be killed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from whimbrel.adapters import file_modes
from whimbrel.domain.errors import Unavailable

READY_WITHIN_S = 120.0
"""A process that ends is noticed at once; one on a busy machine, at its first start, takes its time."""
ENDS_WITHIN_S = 8.0
POLL_S = 0.02


class Program:
    """One `whimbrel` process. Its output goes to a file."""

    def __init__(self, name: str, arguments: list[str], said: Path, timeout_s: float = READY_WITHIN_S) -> None:
        """timeout_s: time to become ready, or to end after a signal."""
        self.name = name
        self._arguments = arguments
        self._said = said
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process, "not started"
        return self._process.pid

    def start(self) -> None:
        # A session of its own: Ctrl-C is for the demo, which then ends its processes in order.
        with open(self._said, "wb", opener=lambda name, flags: os.open(name, flags, file_modes.FILE)) as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "whimbrel", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_it_says(self, words: str) -> None:
        """Raises: Unavailable: it ended, or the words did not appear in time."""
        assert self._process, "not started"
        deadline = time.monotonic() + self._timeout_s
        while words not in self._said.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self._said.read_text(errors="replace").strip()[-2000:]
                raise Unavailable(f"the process '{self.name}' did not become ready; it said: {said or 'nothing'}")
            time.sleep(POLL_S)

    def kill(self) -> None:
        assert self._process, "not started"
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ended_by(self, number: int) -> int:
        """Send it a signal and return its exit code. Raises: TimeoutExpired: it does not end."""
        assert self._process, "not started"
        self._process.send_signal(number)
        return self._process.wait(self._timeout_s)

    def end(self) -> None:
        """End it in order, or kill it if that takes long."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Processes:
    """A cloud of three processes in a data directory."""

    def __init__(self, directory: Path, cloud_file: Path) -> None:
        self.data_dir = directory / "data"
        where = ["--data-dir", str(self.data_dir)]
        endpoint = ["up", *where, "--port", "0", "--cloud", str(cloud_file), "--no-conductor"]
        self.api = Program("api", endpoint, directory / "api.log")
        self.conductors = {
            name: Program(name, ["conductor", *where, "--name", name], directory / f"{name}.log")
            for name in ("c1", "c2")
        }
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as started:
            for program in (self.api, *self.conductors.values()):
                started.callback(program.end)
            self.api.start()
            self.api.wait_until_it_says("Whimbrel is up")
            for conductor in self.conductors.values():
                conductor.start()
            for conductor in self.conductors.values():
                conductor.wait_until_it_says("is ready")
            self._running = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
