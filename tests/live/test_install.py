"""packaging/install.sh, on a machine of its own: a mount namespace that keeps what the script writes in memory."""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.prerequisites import missing
from whimbrel.cli import app

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can install: run this test as root"),
]

SCRIPT = Path(__file__).parents[2] / "packaging/install.sh"
PROGRAMS = {"unshare": "util-linux", "nsenter": "util-linux", "systemctl": "systemd", "systemd-sysusers": "systemd"}
OVERLAYS = """\
mount -t tmpfs tmpfs {layers}
for path in opt etc usr/local var/lib; do
    mkdir -p {layers}/upper/$path {layers}/work/$path
    mount -t overlay overlay -o lowerdir=/$path,upperdir={layers}/upper/$path,workdir={layers}/work/$path /$path
done
echo ready
exec cat  # until its input is closed
"""


class Machine:
    """Runs commands in the mount namespace of a process."""

    def __init__(self, pid: int, layers: Path) -> None:
        self._enter = ("nsenter", f"--target={pid}", "--mount", "--")
        self._root = Path(f"/proc/{pid}/root")
        self._written = self.path(layers / "upper")

    def path(self, path: Path | str) -> Path:
        """Return where this process sees a path of the machine; absolute links lead out of it."""
        return self._root / str(path).lstrip("/")

    def run(self, *words: str | Path) -> str:
        """Run a command that succeeds, and return its output."""
        done = subprocess.run([*self._enter, *map(str, words)], capture_output=True, text=True, check=False)
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
    layers = tmp_path_factory.mktemp("layers")
    words = ["unshare", "--mount", "--propagation=private", "sh", "-ec", OVERLAYS.format(layers=layers)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield Machine(process.pid, layers)
        process.stdin.close()


@pytest.fixture(scope="module")
def installed(machine: Machine) -> Machine:
    machine.run(SCRIPT, "api", "conductor")
    return machine


def test_the_program_runs_as_its_user(installed: Machine) -> None:
    identity = ("setpriv", "--reuid=whimbrel", "--regid=whimbrel", "--clear-groups")
    said = installed.run(*identity, "/opt/whimbrel/current/bin/whimbrel", "--version")
    assert callable(app.version)
    assert said == f"{app.version()}\n"
    assert installed.run("whimbrel", "--version") == said


def test_the_units_of_the_roles_are_enabled(installed: Machine) -> None:
    wanted = "/etc/systemd/system/multi-user.target.wants"
    links = {path: target for path, target in installed.files().items() if path.startswith(wanted)}
    units = b"/usr/local/lib/systemd/system"
    assert links == {
        f"{wanted}/whimbrel-api.service": units + b"/whimbrel-api.service",
        f"{wanted}/whimbrel-conductor.service": units + b"/whimbrel-conductor.service",
    }
    for role in ("api", "conductor", "placement", "image", "volume", "agent"):
        assert installed.run("systemd-analyze", "verify", f"whimbrel-{role}.service") == ""


def test_settings_are_readable_by_its_user_and_secrets_by_root_only(installed: Machine) -> None:
    settings = installed.path("/etc/whimbrel/whimbrel.toml")
    settings.write_text("")
    installed.run(SCRIPT)
    group = int(installed.run("id", "-g", "whimbrel"))
    modes = {
        path: (stat.S_IMODE(found.st_mode), found.st_uid == 0, found.st_gid == group)
        for path in ("/etc/whimbrel", "/etc/whimbrel/whimbrel.toml", "/etc/credstore")
        if (found := installed.path(path).stat())
    }
    assert modes == {
        "/etc/whimbrel": (0o750, True, True),
        "/etc/whimbrel/whimbrel.toml": (0o640, True, True),
        "/etc/credstore": (0o700, True, False),
    }
    settings.unlink()


def test_a_second_run_changes_nothing(installed: Machine) -> None:
    program = os.readlink(installed.path("/opt/whimbrel/current"))
    before = installed.files()
    installed.run(SCRIPT, "conductor")
    assert installed.files() == before
    assert os.readlink(installed.path("/opt/whimbrel/current")) == program


def test_an_interrupted_installation_is_made_anew(installed: Machine) -> None:
    program = Path(os.readlink(installed.path("/opt/whimbrel/current")))
    installed.path(program / ".complete").unlink()
    installed.path(program / "bin/whimbrel").unlink()
    installed.run(SCRIPT)
    assert installed.run("whimbrel", "--version")


@pytest.mark.parametrize("words", [["compute"], ["--force"], ["--wheels"], ["--wheels", "/nonexistent", "api"]])
def test_wrong_arguments_change_nothing(machine: Machine, words: list[str]) -> None:
    before = machine.files()
    with pytest.raises(AssertionError, match=r"usage|--wheels needs a directory"):
        machine.run(SCRIPT, *words)
    assert machine.files() == before
