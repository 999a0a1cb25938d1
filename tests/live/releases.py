"""The release before this one, as a copy of its sources: releases.toml says of which commit."""

import io
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.prerequisites import missing

HERE = Path(__file__).parent
BEFORE = tomllib.loads((HERE / "releases.toml").read_text())["release"][-1]


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sources of the release before, with the metadata that an installation has."""
    command = ["git", "-C", str(HERE.parent.parent), "archive", BEFORE["commit"], "src"]
    archived = subprocess.run(command, capture_output=True, check=False)
    if archived.returncode:
        missing(f"commit {BEFORE['commit']} of release {BEFORE['version']} is not here", "git fetch --unshallow")
    place = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as packed:
        packed.extractall(place, filter="data")
    info = place / "src" / f"whimbrel-{BEFORE['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: whimbrel\nVersion: {BEFORE['version']}\n")
    return place / "src"
