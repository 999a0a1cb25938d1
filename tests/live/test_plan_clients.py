"""Why a server goes there, before and after: our own commands and the unmodified client, on a running cloud."""

import json
from typing import Any

import pytest

from tests.live.running_cloud import ADMIN, RunningCloud

pytestmark = pytest.mark.long

FOUND, NO_HOST = 0, 3


def whimbrel(cloud: RunningCloud, code: int, *words: str) -> str:
    done = cloud.run("whimbrel", *words)
    assert done.returncode == code, f"whimbrel {' '.join(words)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_plan_its_move_and_the_reasons_afterwards_agree(cloud: RunningCloud) -> None:
    words = ("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--no-network", "--wait", "one")
    server = cloud.openstack(*words)["id"]
    plan: Any = json.loads(whimbrel(cloud, FOUND, "plan", "resize", "one", "--flavor", "m1.small", "--json"))["plan"]
    text = whimbrel(cloud, FOUND, "plan", "resize", server, "--flavor", "m1.small")
    assert next(line for line in text.splitlines() if " chosen " in line).startswith(plan["chosen"][0])
    assert plan["summary"] in text

    cloud.say("server", "resize", "--flavor", "m1.small", "--wait", "one")
    [move] = json.loads(whimbrel(cloud, FOUND, "move", "list", "--json"))["moves"]
    assert move["target"] == plan["chosen"][0]
    assert plan["summary"] in whimbrel(cloud, FOUND, "move", "show", move["id"])
    [taken] = json.loads(whimbrel(cloud, FOUND, "move", "show", move["id"], "--why", "--json"))["decisions"]
    assert [one["host"] for one in taken["considered"]] == [one["host"] for one in plan["considered"]]
    assert "choice 1 of 1" in whimbrel(cloud, FOUND, "move", "show", move["id"], "--why")

    version = ("--os-compute-api-version", "2.84")
    request = next(
        e["Request ID"] for e in cloud.openstack("server", "event", "list", "one") if e["Action"] == "resize"
    )
    assert plan["summary"] in str(cloud.openstack(*version, "server", "event", "show", "one", request))


def test_no_host_has_an_exit_code_of_its_own_and_says_what_would_help(cloud: RunningCloud) -> None:
    cloud.say("flavor", "create", "--vcpus", "16", "--ram", "512", "--disk", "1", "huge", cloud=ADMIN)
    words = ("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--no-network", "--wait", "two")
    cloud.openstack(*words)
    said = whimbrel(cloud, NO_HOST, "plan", "resize", "two", "--flavor", "huge")
    assert " would fit with a flavor with at most " in said
    owners = whimbrel(cloud, NO_HOST, "plan", "resize", "two", "--flavor", "huge", "--os-cloud", "whimbrel")
    assert "A flavor with at most " in owners
    assert "chosen" not in owners
    assert "there is no server nobody" in cloud.run("whimbrel", "plan", "migrate", "nobody").stderr
