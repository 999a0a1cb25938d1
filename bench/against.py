"""Benchmarks of this commit and of another one, run in turns: `make bench AGAINST=<commit> [BENCHES="resize boot"]`.

Machines differ, and one machine differs from minute to minute: what counts are ratios of runs that took turns. Each
commit runs with its own sources and its own benchmark scripts, from a copy in a temporary directory.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from figures import calibrate, report

ROOT = Path(__file__).parent.parent
BENCHES = ("resize", "boot", "listing", "takeover", "prove")
TURNS = 3
COMPARED = ("processor_ms", "processor_s")
"""The figures of which ratios are given; times on the clock depend on who else uses the machine."""

Found = defaultdict[tuple[str, str], list[float]]
"""(line of a benchmark, figure) -> its values, one of each turn."""


def main(commit: str, benches: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="whimbrel-against-") as directory:
        other = checked_out(commit, Path(directory))
        for bench in benches:
            compare(bench, commit, other)


def checked_out(commit: str, directory: Path) -> Path:
    """Write the files of a commit into a directory; return it."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "x"], cwd=directory, check=True, input=archive)
    return directory


def compare(bench: str, commit: str, other: Path) -> None:
    here, there = defaultdict(list), defaultdict(list)
    for turn in range(TURNS):
        for found, place in [(there, other), (here, ROOT)][:: -1 if turn % 2 else 1]:
            for line in run(bench, place):
                for figure in COMPARED:
                    if figure in line:
                        found[line["bench"], figure].append(line[figure])
    for key in sorted(here.keys() & there.keys()):
        new, old = median(here[key]), median(there[key])
        report(f"{key[0]}: this over {commit}", figure=key[1], ratio=new / old if old else None, now=new, then=old)
    for name, _ in sorted(here.keys() ^ there.keys()):
        report(f"{name}: only one of them has it")


def run(bench: str, place: Path) -> Iterator[dict[str, Any]]:
    """Run a benchmark of the sources at this place; yield its lines. One that fails is reported and has none."""
    script = place / "bench" / f"bench_{bench}.py"
    environment = {**os.environ, "PYTHONPATH": str(place / "src")}
    calibrate()
    done = subprocess.run([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        report(f"{bench} of {place.name} failed", exit_code=done.returncode)
    for line in done.stdout.splitlines():
        print(line, flush=True)
        yield json.loads(line)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(BENCHES))
