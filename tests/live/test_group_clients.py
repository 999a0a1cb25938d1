"""Server groups with unmodified clients, and an affinity group moved by our own command."""

import json
from typing import Any

import pytest

from tests.live.running_cloud import ADMIN, RunningCloud

pytestmark = pytest.mark.long


def boot(cloud: RunningCloud, name: str, group: str) -> Any:
    words = ("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--no-network", "--wait")
    return cloud.openstack(*words, "--hint", f"group={group}", name)


def host_of(cloud: RunningCloud, server: str) -> Any:
    return cloud.openstack("server", "show", server, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"]


def test_a_group_is_made_filled_shown_and_deleted(cloud: RunningCloud) -> None:
    words = ("server", "group", "create", "--policy", "anti-affinity", "--rule", "max_server_per_host=1", "apart")
    made = cloud.openstack("--os-compute-api-version", "2.64", *words)
    assert (made["policy"], made["rules"]) == ("anti-affinity", {"max_server_per_host": 1})
    servers = [boot(cloud, name, made["id"])["id"] for name in ("one", "two")]
    assert host_of(cloud, "one") != host_of(cloud, "two")
    shown = cloud.openstack("--os-compute-api-version", "2.64", "server", "group", "show", "apart")
    assert [server in str(shown["members"]) for server in servers] == [True, True]
    [listed] = [each for each in cloud.openstack("server", "group", "list", "--long") if each["Name"] == "apart"]
    assert listed["ID"] == made["id"]
    assert "anti-affinity" in str(listed)
    everybodys = cloud.openstack("server", "group", "list", "--all-projects", cloud=ADMIN)
    assert "apart" in [group["Name"] for group in everybodys]
    cloud.say("server", "delete", "--wait", *servers)
    assert not cloud.openstack("server", "group", "show", "apart")["members"]
    cloud.say("server", "group", "delete", "apart")
    assert "apart" not in [group["Name"] for group in cloud.openstack("server", "group", "list")]
    assert "apart" in cloud.refusal("server", "group", "show", "apart")


def test_an_affinity_group_is_moved_together_by_one_command(cloud: RunningCloud) -> None:
    group = cloud.openstack("server", "group", "create", "--policy", "affinity", "together")["id"]
    servers = [boot(cloud, name, group)["id"] for name in ("left", "right")]
    [home] = {host_of(cloud, server) for server in servers}
    asked = cloud.run("whimbrel", "plan", "group", "together", "--json")
    assert asked.returncode == 0, asked.stderr
    plan = json.loads(asked.stdout)["plan"]
    shown = cloud.run("whimbrel", "plan", "group", "together").stdout
    assert f"migrate of together on {home}; nothing is moved" in shown
    assert "servers of the group are there" in shown
    nowhere = cloud.run("whimbrel", "plan", "group", group, "--zone", "nowhere")
    assert (nowhere.returncode, "nowhere is not there" in nowhere.stderr) == (1, True)
    waiting = cloud.run("whimbrel", "server", "move", "--group", "together")
    assert waiting.returncode == 0, waiting.stderr
    assert "wait to be confirmed" in " ".join(waiting.stdout.split())
    confirmed = cloud.run("whimbrel", "server", "move", "--group", group, "--confirm", "--json")
    assert confirmed.returncode == 0, confirmed.stderr
    document = json.loads(confirmed.stdout)["server_group"]
    [target] = {host_of(cloud, server) for server in servers}
    assert (document["state"], document["hosts"]) == ("resting", [target])
    assert target == plan["moving_to"] != home
    gone = cloud.run("whimbrel", "server", "move", "--group", "nobody")
    assert (gone.returncode, "there is no server group nobody" in gone.stderr) == (1, True)
    cloud.say("server", "delete", "--wait", *servers)
