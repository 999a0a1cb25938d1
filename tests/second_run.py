"""Runs pytest, and once more the tests of real processes that failed: python -m tests.second_run [PYTEST ARGUMENT]...

CI uses it. A test of processes, daemons and services of a machine can fail by what else happens on that machine. If it
passes alone, the first failure is printed and named at the end, for people to look into. All other tests are
deterministic: one that fails has failed, and so does a run with more than a few failures.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
AGAIN = ("--last-failed", "--last-failed-no-failures=none", "-n", "0")
MOST_AGAIN = 5


def main(arguments: Sequence[str]) -> int:
    """Return the exit status of pytest, which is that of the second run if there was one."""
    LAST_FAILED.unlink(missing_ok=True)
    status = _pytest(arguments)
    if status != pytest.ExitCode.TESTS_FAILED:
        return status
    failed = sorted(json.loads(LAST_FAILED.read_text()))
    beside_services = "openstack" in arguments  # of -m: all these tests use real services
    if len(failed) > MOST_AGAIN or not all(beside_services or _has_real_processes(each) for each in failed):
        return status
    print(f"{len(failed)} failed, all with real processes: they run once more, by themselves", flush=True)
    status = _pytest([*arguments, *AGAIN])
    if status == pytest.ExitCode.OK:
        print("failed at first, and passed by themselves:", *failed, sep="\n    ", flush=True)
    return status


def _pytest(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def _has_real_processes(test: str) -> bool:
    return Path(test).is_relative_to("tests/live")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
