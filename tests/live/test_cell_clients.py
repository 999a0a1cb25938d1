"""Cells as people meet them: two, on databases of two kinds, by the unmodified client and by `whimbrel cell`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.databases import own_postgres, postgres
from tests.live.running_cloud import HOST, RunningCloud, running_cloud
from tests.live.test_clients import ADMIN, boot, until, until_status
from tests.live.test_zone_clients import whimbrel

pytestmark = pytest.mark.long

__all__ = ["own_postgres", "postgres"]  # fixtures

HOSTS = "".join(HOST.format(name=name, zone="nova") for name in ("n1", "n2"))
SECOND = '[[cell]]\nname = "two"\ndatabase = "{}"\n' + "".join(
    HOST.format(name=name, zone="nova") for name in ("m1", "m2")
)
CROSSING = '"compute:servers:resize:cross_cell": "role:admin"\n'


def cells(cloud: RunningCloud) -> dict[str, Any]:
    return {cell["name"]: cell for cell in json.loads(whimbrel(cloud, "cell", "list", "--json"))["cells"]}


def hosts(cloud: RunningCloud) -> dict[str, str]:
    """Return the host of each server."""
    listed = cloud.openstack("server", "list", "--all-projects", "--long", cloud=ADMIN)
    return {server["Name"]: server["Host"] for server in listed}


def test_servers_land_in_both_cells_until_one_is_drained(tmp_path: Path, own_postgres: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(CROSSING)
    second = HOSTS + SECOND.format(own_postgres)
    with running_cloud(tmp_path, "--policy", str(policy), hosts=second) as cloud:
        for number in range(1, 5):  # one after the other: each goes to a host that has none yet
            boot(cloud, f"s-{number}")
            landed = until(lambda: hosts(cloud), lambda seen: all(seen.values()))
        assert {host[0] for host in landed.values()} == {"n", "m"}
        found = cells(cloud)
        assert [(cell["state"], cell["servers"], cell["hosts_up"]) for cell in found.values()] == [("up", 2, 2)] * 2
        assert found["two"]["database"] == "postgresql"

        assert "takes no more servers; the 2 that it has stay" in whimbrel(cloud, "cell", "disable", "two")
        boot(cloud, "last")
        assert sorted(host[0] for host in hosts(cloud).values()) == ["m", "m", "n", "n", "n"]
        assert "cell two takes servers" in whimbrel(cloud, "cell", "enable", "two")

        said = whimbrel(cloud, "cell", "drain", "two", "--at-once", "1", "--reason", "old racks")
        assert "cell two: 2 servers moved away; none is left" in said
        assert {host[0] for host in hosts(cloud).values()} == {"n"}
        assert {cell["servers"] for cell in cells(cloud).values()} == {5, 0}
        assert "old racks" in whimbrel(cloud, "cell", "list")
        for server in cloud.openstack("server", "list"):
            assert server["Status"] == "ACTIVE"
        assert "none is left" in whimbrel(cloud, "cell", "drain", "two")


def test_what_cannot_leave_a_cell_is_left_with_a_reason(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(CROSSING)
    second = HOSTS + SECOND.format(f"sqlite:///{tmp_path / 'second'}")
    with running_cloud(tmp_path, "--policy", str(policy), hosts=second) as cloud:
        for name in ("n1", "n2"):
            cloud.say("compute", "service", "set", "--disable", name, "nova-compute", cloud=ADMIN)
        server = boot(cloud, "web")["id"]
        done = cloud.run("whimbrel", "cell", "drain", "two", "--json")
        assert done.returncode == 1, done.stderr
        [left] = json.loads(done.stdout)["drain"]["left"]
        assert (left["id"], left["host"][0]) == (server, "m")
        assert "disabled" in left["reason"]

        cloud.say("compute", "service", "set", "--enable", "n1", "nova-compute", cloud=ADMIN)
        done = cloud.run("whimbrel", "cell", "drain", "two", "--no-confirm", "--json")
        assert done.returncode == 0, done.stderr
        assert [one["host"] for one in json.loads(done.stdout)["drain"]["waiting"]] == ["n1"]
        until_status(cloud, server, "VERIFY_RESIZE")
        assert "cell two: 1 server moved away; none is left" in whimbrel(cloud, "cell", "drain", "two")
        assert cloud.openstack("server", "show", server)["status"] == "ACTIVE"


def test_nobody_is_moved_about_inside_a_cell_that_nobody_may_leave(tmp_path: Path) -> None:
    second = HOSTS + SECOND.format(f"sqlite:///{tmp_path / 'second'}")
    with running_cloud(tmp_path, hosts=second) as cloud:
        boot(cloud, "web")
        [host] = hosts(cloud).values()
        done = cloud.run("whimbrel", "cell", "drain", "two" if host.startswith("m") else "one")
        assert done.returncode == 1
        assert "compute:servers:resize:cross_cell" in done.stderr
        assert all(cell["enabled"] for cell in cells(cloud).values()), "it is as if nobody had asked"
        assert json.loads(whimbrel(cloud, "move", "list", "--json"))["moves"] == []


def test_a_cell_is_added_while_the_cloud_is_up_and_one_that_is_down_disturbs_nobody(tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.write_text("no directory")
    with running_cloud(tmp_path, hosts=HOSTS + SECOND.format(f"sqlite:///{away}")) as cloud:
        assert cells(cloud)["two"]["state"] == "down"
        assert boot(cloud, "web")["status"] == "ACTIVE"
        added = whimbrel(cloud, "cell", "add", "three", "--database", f"sqlite:///{tmp_path / 'third'}")
        assert (
            "cell three is up and has no hosts yet: invite some with: whimbrel host invite NAME --cell three" in added
        )
        assert "There is a cell three already" in cloud.run("whimbrel", "cell", "add", "three").stderr
        assert "cell two is down" in cloud.run("whimbrel", "cell", "drain", "two").stderr
        away.unlink()
        back = until(lambda: cells(cloud)["two"], lambda seen: seen["hosts_up"] == 2)  # a moment after it is up
        assert back["state"] == "up"
