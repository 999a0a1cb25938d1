"""The plug-in of the unmodified `openstack` command: list, show, confirm and revert moves on a running cloud."""

import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest

from tests.live.running_cloud import ADMIN, RunningCloud, running_cloud
from tests.prerequisites import missing
from tests.processes import wait_for

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCloud]:
    if "maintenance_list" not in entry_points(group="openstack.whimbrel.v1").names:
        missing("the environment was installed before the plug-in was added", "make setup")
    with running_cloud(tmp_path_factory.mktemp("cloud")) as running:
        yield running


def boot(cloud: RunningCloud, name: str) -> str:
    words = ("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--no-network", "--wait", name)
    server_id: str = cloud.openstack(*words)["id"]
    return server_id


def parked(cloud: RunningCloud, server: str) -> Any:
    """Return the only move of a server, which waits for a verdict: the journal has it after the server shows it."""
    words = ("move", "list", "--server", server)
    [row] = wait_for(
        lambda: cloud.openstack(*words, cloud=ADMIN), lambda rows: rows[0]["State"] == "parked", "the move is parked"
    )
    return row


def until_over(cloud: RunningCloud, move: str) -> Any:
    return wait_for(
        lambda: cloud.openstack("move", "show", move, cloud=ADMIN),
        lambda seen: seen["state"] not in ("open", "parked"),
        "the move is over",
    )


def test_a_move_is_listed_shown_and_confirmed_by_the_beginning_of_its_id(cloud: RunningCloud) -> None:
    server_id = boot(cloud, "one")
    cloud.say("server", "resize", "--flavor", "m1.small", "--wait", "one")
    row = parked(cloud, "one")
    assert (row["Type"], row["Server"], row["State"], row["Step"]) == ("resize", "one", "parked", "await_verdict")
    assert re.fullmatch(r"\d+ s", row["Standing For"])
    assert cloud.openstack("move", "show", "one", cloud=ADMIN)["id"] == row["ID"]
    shown = cloud.openstack("move", "show", row["ID"][:8], cloud=ADMIN)
    assert (shown["server_id"], shown["source"], shown["state"]) == (server_id, row["Source"], "parked")
    steps = cloud.openstack("move", "step", "list", row["ID"][:8], cloud=ADMIN)
    said = {step["Step"]: (step["Outcome"], step["Sentence"]) for step in steps}
    assert said["lock"] == ("done", "locks the server")
    assert said["destroy_on_source"] == ("ahead", "destroys the guest on the source")
    cloud.say("move", "confirm", "one", cloud=ADMIN)
    assert "does not wait to be confirmed" in cloud.refusal("move", "revert", row["ID"], cloud=ADMIN)
    assert until_over(cloud, row["ID"])["state"] == "done"


def test_a_reverted_move_is_no_error(cloud: RunningCloud) -> None:
    boot(cloud, "two")
    cloud.say("server", "resize", "--flavor", "m1.small", "--wait", "two")
    move = parked(cloud, "two")["ID"]
    assert cloud.say("move", "list", "--state", "parked", "-f", "value", "-c", "ID", cloud=ADMIN).split() == [move]
    cloud.say("move", "revert", move, cloud=ADMIN)
    shown = until_over(cloud, move)
    assert (shown["state"], shown["status"], shown["why"]) == ("rolled back", "reverted", None)
    assert cloud.openstack("move", "list", "--open", "--host", shown["target"], cloud=ADMIN) == []


def test_hosts_are_emptied_by_a_plan(cloud: RunningCloud) -> None:
    server_id = boot(cloud, "three")
    host = cloud.openstack("server", "show", "three", cloud=ADMIN)["OS-EXT-SRV-ATTR:host"]
    always = ("--window", "00:00-12:00", "--window", "12:00-24:00", "--time-zone", "Europe/Berlin")
    planned = cloud.openstack("maintenance", "plan", host, "--name", "fans", "--at-once", "2", *always, cloud=ADMIN)
    assert (planned["state"], planned["at_once"], planned["hosts"]) == ("planned", 2, host)
    assert (planned["windows"], planned["time_zone"]) == ("00:00-12:00, 12:00-24:00", "Europe/Berlin")
    servers = cloud.openstack("maintenance", "server", "list", "fans", cloud=ADMIN)
    assert [(one["ID"], one["State"]) for one in servers if one["Server"] == "three"] == [(server_id, "planned")]
    cloud.say("maintenance", "start", "fans", "--wait", cloud=ADMIN)
    shown = cloud.openstack("maintenance", "show", planned["id"][:8], cloud=ADMIN)
    assert (shown["state"], shown["progress"]) == ("done", f"{len(servers)} of {len(servers)} moved")
    [row] = cloud.openstack("maintenance", "list", cloud=ADMIN)
    assert (row["ID"], row["Name"], row["State"]) == (planned["id"], "fans", "done")
    for action in ("pause", "resume", "abort"):
        assert "HTTP 409" in cloud.refusal("maintenance", action, "fans", cloud=ADMIN)


def test_what_there_is_not_is_refused_in_words(cloud: RunningCloud) -> None:
    assert "no move has an id that begins with 'ffffffff'" in cloud.refusal("move", "show", "ffffffff", cloud=ADMIN)
    assert "No maintenance with a name or ID of 'x'" in cloud.refusal("maintenance", "show", "x", cloud=ADMIN)
    assert "Policy doesn't allow whimbrel:moves:index" in cloud.refusal("move", "list")
