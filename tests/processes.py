"""How tests start processes and wait for them. A test judges what is done, not how fast a machine does it.

What hangs is found by people: pytest writes where each thread stands after `faulthandler_timeout`, and goes on.
"""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from whimbrel.cli.demo import actors
from whimbrel.cli.demo.cloud_processes import Program
from whimbrel.cli.demo.output import JsonLines

HANG_S = 1800.0
"""After this time something hangs, however busy the machine is: the only limit of a test on the wall clock."""


http = httpx.Client(timeout=HANG_S, limits=httpx.Limits(max_keepalive_connections=0))
"""Asks processes that may be slow, and are started again at the same address."""


def program(name: str, arguments: list[str], said: Path) -> Program:
    """Make a `whimbrel` process that may take its time. tests/process_guard.py ends it if the test cannot."""
    return Program(name, arguments, said, timeout_s=HANG_S)


def execute(words: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its status is."""
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False)


def wait_for(look: Callable[[], Any], enough: Callable[[Any], bool], what: str, poll_s: float = actors.POLL_S) -> Any:
    """Look until it is enough."""
    return actors.wait_for(look, enough, what, poll_s, timeout_s=HANG_S)


class Operator(actors.Operator):
    """The demo's operator, with patience."""

    def __init__(self, api: Any, stage: JsonLines) -> None:
        super().__init__(api, stage, timeout_s=HANG_S)
