"""Prometheus's own programs, as tests run them; where they are missing, tests are given up."""

import shutil
import subprocess
from pathlib import Path

from tests.prerequisites import missing

DOCS = Path(__file__).parents[1] / "docs"
ALARMS = DOCS / "alerts.yaml"
TRIALS = (DOCS / "alerts.test.yaml", DOCS / "alerts.days.test.yaml")


def program(name: str) -> str:
    """Find one of Prometheus's programs, or give the test up."""
    found = shutil.which(name)
    return found or missing(f"{name} is needed", "apt-get install prometheus")


def promtool(*words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("promtool"), *map(str, words)], input=given, capture_output=True, text=True, check=False
    )
