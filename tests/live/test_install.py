"""packaging/install.sh, on a machine of its own: a mount namespace that keeps what the script writes in memory."""

import os
import stat
from pathlib import Path

import pytest

from tests.live.overlaid_machine import SCRIPT, Machine, machine
from whimbrel.cli import app

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can install: run this test as root"),
]

__all__ = ["machine"]  # a fixture


@pytest.fixture(scope="module")
def installed(machine: Machine) -> Machine:
    machine.install("api", "conductor")
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
    for role in ("api", "conductor", "console", "dashboard", "placement", "image", "volume", "agent"):
        assert installed.run("systemd-analyze", "verify", f"whimbrel-{role}.service") == ""


def test_settings_are_readable_by_its_user_and_secrets_by_root_only(installed: Machine) -> None:
    settings = installed.path("/etc/whimbrel/whimbrel.toml")
    settings.write_text("")
    installed.install()
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
    installed.install("conductor")
    assert installed.files() == before
    assert os.readlink(installed.path("/opt/whimbrel/current")) == program


def test_an_interrupted_installation_is_made_anew(installed: Machine) -> None:
    program = Path(os.readlink(installed.path("/opt/whimbrel/current")))
    installed.path(program / ".complete").unlink()
    installed.path(program / "bin/whimbrel").unlink()
    installed.install()
    assert installed.run("whimbrel", "--version")


def test_a_python_in_a_home_directory_is_refused(machine: Machine) -> None:
    """The units cannot read it."""
    fake = machine.path("/opt/python")
    fake.write_text('#!/bin/sh\ncase "$2" in *base_prefix*) echo ~root/python ;; esac\n')
    fake.chmod(0o755)
    with pytest.raises(AssertionError, match="set PYTHON to /usr/bin/python3"):
        machine.run("env", "PYTHON=/opt/python", SCRIPT)


@pytest.mark.parametrize("words", [["compute"], ["--force"], ["--wheels"], ["--wheels", "/nonexistent", "api"]])
def test_wrong_arguments_change_nothing(machine: Machine, words: list[str]) -> None:
    before = machine.files()
    with pytest.raises(AssertionError, match=r"usage|--wheels needs a directory"):
        machine.install(*words)
    assert machine.files() == before
