"""This machine with changes in memory: a mount namespace in which the directories of installed programs are overlays.

Invariant: nothing of this machine is changed, and the namespace ends with the test.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.prerequisites import missing

SCRIPT = Path(__file__).parents[2] / "packaging/install.sh"
PYTHON = "/usr/bin/python3"
PROGRAMS = {"unshare": "util-linux", "nsenter": "util-linux", "systemctl": "systemd", "systemd-sysusers": "systemd"}
WRITTEN = ("opt", "etc", "usr/local", "var/lib")
OVERLAYS = """\
mount -t tmpfs tmpfs {layers}
for path in {written}; do
    mkdir -p {layers}/upper/$path {layers}/workdir/$path
    mount -t overlay overlay -o lowerdir=/$path,upperdir={layers}/upper/$path,workdir={layers}/workdir/$path /$path
done
echo ready
exec cat  # until its input is closed
"""


class Machine:
    """Runs commands in the mount namespace of a process."""

    def __init__(self, pid: int, layers: Path) -> None:
        self.enter = ("nsenter", f"--target={pid}", "--mount", "--")
        self._root = Path(f"/proc/{pid}/root")
        self._written = self.path(layers / "upper")

    def path(self, path: Path | str) -> Path:
        """Return where this process sees a path of the machine; absolute links lead out of it."""
        return self._root / str(path).lstrip("/")

    def install(self, *words: str) -> None:
        """Run the script with the Python of the system."""
        self.run("env", f"PYTHON={PYTHON}", SCRIPT, *words)

    def run(self, *words: str | Path) -> str:
        """Run a command that succeeds, and return its output."""
        done = subprocess.run([*self.enter, *map(str, words)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def files(self) -> dict[str, bytes]:
        """Return what was written, by path, but the program."""
        paths = (path for path in self._written.rglob("*") if "opt" not in path.relative_to(self._written).parts[:1])
        return {
            f"/{path.relative_to(self._written)}": os.readlink(path).encode()
            if path.is_symlink()
            else path.read_bytes()
            for path in paths
            if not path.is_dir() or path.is_symlink()
        }


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            missing(f"{program} is needed", f"apt-get install {package}")
    if subprocess.run([PYTHON, "-c", "import ensurepip, venv"], capture_output=True, check=False).returncode:
        missing(f"{PYTHON} with venv is needed", "apt-get install python3-venv")
    layers = tmp_path_factory.mktemp("layers")
    words = [
        "unshare",
        "--mount",
        "--propagation=private",
        "sh",
        "-ec",
        OVERLAYS.format(layers=layers, written=" ".join(WRITTEN)),
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield Machine(process.pid, layers)
        process.stdin.close()
