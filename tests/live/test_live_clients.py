"""Live migrations by the unmodified client and by our own commands, on simulated hosts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.running_cloud import RunningCloud, running_cloud
from tests.live.test_clients import ADMIN, until, until_status
from tests.live.test_plan_clients import FOUND, whimbrel
from whimbrel.moves.migration_status import LIVE_IN_PROGRESS

pytestmark = pytest.mark.long

QUICKLY = "[simulated]\nlive_mib_s = 1000\n"
SLOWLY = ("--property", "whimbrel:live_bandwidth_mib_s=2", "--property", "whimbrel:live_ladder=post_copy")
VERSION = ("--os-compute-api-version", "2.80")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCloud]:
    with running_cloud(tmp_path_factory.mktemp("cloud"), settings=QUICKLY) as running:
        size = ("--vcpus", "1", "--ram", "512", "--disk", "1")
        running.say("flavor", "create", *size, *SLOWLY, "slow", cloud=ADMIN)  # its transfers take minutes
        yield running


def boot(cloud: RunningCloud, name: str, flavor: str = "m1.tiny") -> str:
    words = ("--flavor", flavor, "--image", "tick", "--no-network", "--availability-zone", "north", "--wait")
    server: str = cloud.openstack("server", "create", *words, name)["id"]
    return server


def host_of(cloud: RunningCloud, server: str) -> str:
    found: str = cloud.openstack("server", "show", server, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"]
    return found


def migrations(cloud: RunningCloud, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cloud.openstack(*VERSION, "server", "migration", "list", *words, cloud=ADMIN)
    return found


def until_over(cloud: RunningCloud, server: str) -> list[dict[str, Any]]:
    """Return a server's migrations once none is in progress: it is ACTIVE a moment before the journal has the end."""
    found: list[dict[str, Any]] = until(
        lambda: migrations(cloud, "--server", server),
        lambda seen: not {each["Status"] for each in seen}.intersection(LIVE_IN_PROGRESS),
    )
    return found


def begun(cloud: RunningCloud, server: str) -> dict[str, Any]:
    """Begin a live migration; return it once its transfer runs."""
    cloud.say(*VERSION, "server", "migrate", "--live-migration", server, cloud=ADMIN)
    words = ("--server", server, "--type", "live-migration", "--status", "running")
    [found] = until(lambda: migrations(cloud, *words), bool)
    return found


def test_a_server_is_migrated_live_and_waited_for(cloud: RunningCloud) -> None:
    server = boot(cloud, "one")
    source = host_of(cloud, server)
    cloud.say(*VERSION, "server", "migrate", "--live-migration", "--wait", "one", cloud=ADMIN)
    target = host_of(cloud, server)
    assert {source, target} == {"n1", "n2"}
    assert cloud.openstack("server", "show", server)["status"] == "ACTIVE"
    [found] = until_over(cloud, server)
    assert (found["Status"], found["Type"]) == ("completed", "live-migration")
    assert (found["Source Compute"], found["Dest Compute"]) == (source, target)
    cloud.say("--os-compute-api-version", "2.30", "server", "migrate", "--live-migration", "--host", source, "--wait",
              "one", cloud=ADMIN)  # fmt: skip
    assert host_of(cloud, server) == source
    assert "403" in cloud.refusal(*VERSION, "server", "migrate", "--live-migration", "one")


def test_a_live_migration_is_watched_and_aborted(cloud: RunningCloud) -> None:
    server = boot(cloud, "two", "slow")
    source, found = host_of(cloud, server), begun(cloud, server)
    # By its uuid: given a number, this release of the client asks for migration SERVER of server NUMBER.
    words = (*VERSION, "server", "migration", "show", server, found["UUID"])
    shown = until(lambda: cloud.openstack(*words, cloud=ADMIN), lambda seen: seen["Memory Total Bytes"])
    assert shown["Status"] == "running"
    assert shown["Memory Total Bytes"] == shown["Memory Processed Bytes"] + shown["Memory Remaining Bytes"]
    text = whimbrel(cloud, FOUND, "move", "show", found["UUID"])
    assert "copied: memory " in text
    assert "prediction: " in text
    cloud.say(*VERSION, "server", "migration", "abort", server, str(found["Id"]), cloud=ADMIN)
    until_status(cloud, server, "ACTIVE")
    assert host_of(cloud, server) == source
    assert until_over(cloud, server)[0]["Status"] == "cancelled"
    words = (*VERSION, "server", "migration", "force", "complete", server, "999")
    assert "is in an invalid state" in cloud.refusal(*words, cloud=ADMIN)


def test_a_live_migration_is_forced_to_complete(cloud: RunningCloud) -> None:
    server = boot(cloud, "three", "slow")
    source, found = host_of(cloud, server), begun(cloud, server)
    cloud.say(*VERSION, "server", "migration", "force", "complete", server, str(found["Id"]), cloud=ADMIN)
    until_status(cloud, server, "ACTIVE")
    assert host_of(cloud, server) != source
    actions = {event["Action"] for event in cloud.openstack("server", "event", "list", server)}
    assert {"live-migration", "live_migration_force_complete"} <= actions


def test_our_own_commands_plan_and_begin_a_live_move(cloud: RunningCloud) -> None:
    server = boot(cloud, "four")
    plan: Any = json.loads(whimbrel(cloud, FOUND, "plan", "migrate", "four", "--live", "--json"))["plan"]
    assert "live migrate of four" in whimbrel(cloud, FOUND, "plan", "migrate", "four", "--live")
    words = ("server", "move", "four", "--live", "--ladder", "longer_pause,abort", "--longest-pause-ms", "100")
    moved = json.loads(whimbrel(cloud, FOUND, *words, "--wait", "--json"))["move"]
    assert (moved["state"], moved["saga"], moved["target"]) == ("done", "live_migrate", plan["chosen"][0])
    policy = moved["facts"]["live"]["policy"]
    assert (policy["longest_pause_ms"], policy["ladder"]) == (100, ["longer_pause", "abort"])
    assert host_of(cloud, server) == plan["chosen"][0]
    assert "live" in cloud.run("whimbrel", "server", "move", "four", "--ladder", "abort").stderr
