"""The processes of a cloud: starting, ending, dying, starting again; and an operator's commands against one."""

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.live.running_cloud import RunningCloud, running_cloud
from tests.processes import Operator, execute, program, wait_for
from whimbrel.cli.client import Api, Login
from whimbrel.cli.demo.output import JsonLines


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[RunningCloud]:
    with running_cloud(tmp_path) as running:
        yield running


def whimbrel(*words: str) -> subprocess.CompletedProcess[str]:
    return execute([sys.executable, "-m", "whimbrel", *words])


def operator_of(cloud: RunningCloud) -> Operator:
    api = Api(Login(cloud.home.clouds, "whimbrel-admin"))
    api.log_in()
    return Operator(api, JsonLines())


def restarted(cloud: RunningCloud) -> None:
    """Start the cloud again as it was, on any port."""
    cloud.program.start()
    cloud.program.wait_until_it_says("Whimbrel is up")


@pytest.mark.long
def test_sigterm_and_ctrl_c_end_it_in_order(cloud: RunningCloud) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        assert cloud.program.ended_by(number) == 0
        restarted(cloud)


def test_after_kill_9_it_goes_on_as_if_nothing_had_happened(cloud: RunningCloud) -> None:
    operator = operator_of(cloud)
    ids = operator.boot(["one"], "1", "tick")
    clouds = cloud.home.clouds.read_text().replace(cloud.home.running().url, "")
    operator.resize("one", ids["one"], "2")
    cloud.program.kill()
    restarted(cloud)
    assert cloud.home.clouds.read_text().replace(cloud.home.running().url, "") == clouds
    again = operator_of(cloud)
    again.until(ids["one"], "VERIFY_RESIZE")
    again.confirm("one", ids["one"])
    assert again.until(ids["one"], "ACTIVE")["flavor"]["original_name"] == "m1.small"


def test_a_directory_has_one_cloud(cloud: RunningCloud) -> None:
    second = whimbrel("up", "--data-dir", str(cloud.home.path), "--port", "0")
    assert second.returncode == 1
    assert f"in use by another whimbrel up (process {cloud.program.pid})" in second.stderr


def test_a_database_has_one_cloud(cloud: RunningCloud, tmp_path: Path) -> None:
    """Also with another data directory; kill -9 lets the same directory go on at once."""
    other = ("up", "--data-dir", str(tmp_path / "other"), "--port", "0")
    database = ("--database", f"sqlite:///{cloud.home.path / 'db'}")
    second = whimbrel(*other, *database)
    assert (second.returncode, second.stderr.count("\n")) == (1, 1)
    assert f"in use by another whimbrel up: process {cloud.program.pid} on host" in second.stderr
    assert f"with data directory {cloud.home.path}, started" in second.stderr
    cloud.program.kill()
    restarted(cloud)


def test_a_conductor_has_its_name_alone(cloud: RunningCloud, tmp_path: Path) -> None:
    arguments = ["conductor", "--name", "c1", "--data-dir", str(cloud.home.path)]
    first = program("c1", arguments, tmp_path / "c1.log")
    first.start()
    try:
        first.wait_until_it_says("is ready")
        second = whimbrel(*arguments)
        assert (second.returncode, "in use by another whimbrel conductor-c1" in second.stderr) == (1, True)
        assert first.ended_by(signal.SIGTERM) == 0
    finally:
        first.end()


def test_a_directory_of_a_newer_version_is_left_alone(cloud: RunningCloud) -> None:
    cloud.program.end()
    with closing(sqlite3.connect(cloud.home.path / "db" / "global.sqlite")) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.execute("UPDATE schema_compatibility SET oldest_program = '9999'")
        database.commit()
    again = whimbrel("up", "--data-dir", str(cloud.home.path), "--port", "0")
    assert again.returncode == 1
    assert "newer Whimbrel" in again.stderr
    assert again.stderr.count("\n") == 1


def test_a_policy_that_cannot_be_understood_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("os_compute_api:servers:create: 'role:'\nno-such-rule: '@'\n")
    start = whimbrel(
        *("up", "--data-dir", str(tmp_path / "data"), "--port", "0", "--policy", str(tmp_path / "policy.yaml"))
    )
    assert start.returncode == 2
    assert "policy.yaml" in start.stderr
    assert start.stderr.count("\n") == 1


def test_a_database_that_does_not_answer_is_said(tmp_path: Path) -> None:
    start = whimbrel(
        *("up", "--data-dir", str(tmp_path / "data"), "--port", "0", "--database", "postgresql://u@127.0.0.1:1/d")
    )
    assert start.returncode == 1
    assert start.stderr.startswith("whimbrel: ")


@pytest.mark.long
def test_moves_are_shown_watched_and_spoken_to(cloud: RunningCloud) -> None:
    where = ("--data-dir", str(cloud.home.path))
    assert whimbrel("move", "list", *where).stdout.strip() == "no moves"
    operator = operator_of(cloud)
    ids = operator.boot(["one"], "1", "tick")
    operator.resize("one", ids["one"], "2")
    operator.until(ids["one"], "VERIFY_RESIZE")
    move = operator.latest_move(ids["one"])

    listed = whimbrel("move", "list", "--open", *where)
    assert move.id in listed.stdout
    assert move.id in whimbrel("move", "list", "--server", "one", *where).stdout
    assert move.id in whimbrel("move", "list", "--server", ids["one"], *where).stdout
    assert "no server two" in whimbrel("move", "list", "--server", "two", *where).stderr
    assert "VERIFY" not in listed.stderr
    shown = whimbrel("move", "show", move.id, *where)
    assert shown.returncode == 0
    assert "switch_home" in shown.stdout
    assert "openstack server resize confirm|revert" in shown.stdout
    document: Any = json.loads(whimbrel("move", "show", move.id, "--json", *where).stdout)
    assert document["move"]["state"] == "parked"
    parked = whimbrel("move", "show", move.id[:6], "--watch", *where)  # which ends, for it waits for a verdict
    assert (parked.returncode, f"confirm|revert {ids['one']}" in parked.stdout) == (0, True)

    back = whimbrel("move", "turn-back", move.id[:6], *where)
    assert back.returncode == 0, back.stderr
    watched = whimbrel("move", "show", move.id, "--watch", *where)
    assert "rolled back (on request)" in watched.stdout
    lines = [
        json.loads(line)
        for line in whimbrel("move", "show", move.id, "--watch", "--json", *where).stdout.split("\n")
        if line
    ]
    assert lines[-1]["move"]["state"] == "undone"
    assert operator.until(ids["one"], "ACTIVE")["flavor"]["original_name"] == "m1.tiny"

    late = whimbrel("move", "retry", move.id, *where)
    assert (late.returncode, late.stderr.count("\n")) == (1, 1)
    assert "nothing to retry" in late.stderr
    assert whimbrel("move", "show", "00000000-0000-0000-0000-000000000000", *where).returncode == 1
    refused = whimbrel("move", "list", "--os-cloud", "whimbrel", *where)
    assert (refused.returncode, "403" in refused.stderr) == (1, True)


@pytest.mark.long
def test_the_demo_ends_with_books_that_agree() -> None:
    told = whimbrel("demo", "--json")
    assert told.returncode == 0, told.stderr
    events = [json.loads(line) for line in told.stdout.splitlines()]
    assert any("taken_over_by" in event for event in events)
    [books] = [event for event in events if event["event"] == "books"]
    assert books["agree"]
    assert books["servers"] == 3
    facts = {invariant["law"]: invariant["facts"] for invariant in books["laws"]}
    assert (facts["I1"], facts["I10"]) == (6, 3)  # of each server its guest, where it is, and what it counts for


def test_moves_are_taken_over_by_a_conductor_of_another_process(tmp_path: Path) -> None:
    with running_cloud(tmp_path, "--no-conductor") as cloud:
        operator = operator_of(cloud)
        conductor = program(
            "c1", ["conductor", "--name", "c1", "--data-dir", str(cloud.home.path)], tmp_path / "c1.log"
        )
        conductor.start()
        try:
            conductor.wait_until_it_says("is ready")
            ids = operator.boot(["one"], "1", "tick")
            operator.migrate("one", ids["one"])
            operator.until(ids["one"], "VERIFY_RESIZE")
            move = operator.latest_move(ids["one"])
            operator.confirm("one", ids["one"])
            over = wait_for(lambda: operator.move(move.id), lambda now: now.is_over, "the move to be over")
        finally:
            conductor.end()
        assert over.state == "done"
        assert operator.until(ids["one"], "ACTIVE")["OS-EXT-SRV-ATTR:host"] == over.target
