"""The systemd units: systemd understands them, each role is confined, and what they name exists."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.prerequisites import missing
from tests.processes import execute
from whimbrel.cli import app

PACKAGING = Path(__file__).parents[2] / "packaging"
UNITS = PACKAGING / "systemd"
PROGRAM = "/opt/whimbrel/current/bin/whimbrel"
ROLES = sorted(unit.stem.removeprefix("whimbrel-") for unit in UNITS.glob("whimbrel-*.service"))
MOST_EXPOSED = 3.0
"""Of systemd's exposure level, 0 to 10; its own services have 9 without any hardening."""


def systemd_analyze(*words: str | Path) -> str:
    """Run it; what it complains of is part of its output."""
    if not shutil.which("systemd-analyze"):
        missing("systemd-analyze is needed", "apt-get install systemd")
    done = execute(["systemd-analyze", *map(str, words)])
    return done.stdout + done.stderr


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Copy the units for a machine on which the program is this Python."""
    copy = shutil.copytree(UNITS, tmp_path / "units")
    for unit in copy.glob("*.service"):
        unit.write_text(unit.read_text().replace(PROGRAM, sys.executable))
    return copy


def exposure(units: Path, role: str) -> float:
    unit = units / f"whimbrel-{role}.service"
    said = systemd_analyze("security", "--offline=true", unit)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert found, said
    return float(found[1])


def test_there_is_a_unit_for_each_role() -> None:
    assert ROLES == ["agent", "api", "conductor", "console", "dashboard", "image", "placement", "volume", "watchdog"]


@pytest.mark.parametrize("role", ROLES)
def test_systemd_understands_it(units: Path, role: str) -> None:
    assert systemd_analyze("verify", units / f"whimbrel-{role}.service") == ""


def test_a_unit_that_systemd_does_not_understand_is_seen(units: Path) -> None:
    drop_in = units / "whimbrel-.service.d/10-hardening.conf"
    drop_in.write_text(drop_in.read_text().replace("PrivateTmp=", "PrivateTemp="))
    assert "PrivateTemp" in systemd_analyze("verify", units / "whimbrel-api.service")


@pytest.mark.parametrize("role", ROLES)
def test_it_is_confined(units: Path, role: str) -> None:
    assert exposure(units, role) <= MOST_EXPOSED


def test_it_is_the_drop_in_that_confines(units: Path) -> None:
    shutil.rmtree(units / "whimbrel-.service.d")
    assert exposure(units, "api") > MOST_EXPOSED


@pytest.mark.parametrize("role", ROLES)
def test_its_command_is_understood(role: str) -> None:
    unit = (UNITS / f"whimbrel-{role}.service").read_text()
    command = re.search(rf"^ExecStart={PROGRAM} (.*)$", unit, re.MULTILINE)
    assert command
    words = command[1].replace(" $PLACEMENT_OPTIONS", "").split()
    app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("role", ROLES)
def test_it_goes_on_whatever_ended_it(role: str) -> None:
    unit = (UNITS / f"whimbrel-{role}.service").read_text()
    common = (UNITS / "whimbrel-.service.d/10-hardening.conf").read_text()
    assert "Restart=always" in common
    assert "StartLimitIntervalSec=0" in common
    assert "Restart=" not in unit


def test_nothing_in_the_image_description_is_missing() -> None:
    text = (PACKAGING / "oci/Containerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert [name for name in copied if not (PACKAGING.parent / name).exists()] == []
    entry = re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    assert entry
    assert json.loads(entry[1]) == ["/opt/whimbrel/bin/whimbrel"]


def test_systemd_understands_an_agent_that_makes_networks(units: Path) -> None:
    drop_in = units / "whimbrel-agent.service.d/30-networks.conf"
    shutil.move(units / "networks.conf", drop_in)
    assert systemd_analyze("verify", units / "whimbrel-agent.service") == ""
    assert "CAP_NET_ADMIN" in drop_in.read_text()


def test_systemd_understands_the_program_that_connects_volumes(units: Path) -> None:
    assert systemd_analyze("verify", units / "storage-whimbrel.socket", units / "storage-whimbrel@.service") == ""
    unit = (UNITS / "storage-whimbrel@.service").read_text()
    command = re.search(rf"^ExecStart={PROGRAM} (.*)$", unit, re.MULTILINE)
    assert command
    app.parse_args(command[1].split(), exit_on_error=False, print_error=False)
    assert "Private" not in unit, "its mounts are for libvirt"
