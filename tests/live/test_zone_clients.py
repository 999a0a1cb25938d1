"""Zones as people meet them: by the unmodified client, and by `whimbrel zone` and `whimbrel server move`."""

from pathlib import Path
from typing import Any

import pytest

from tests.live.running_cloud import RunningCloud, running_cloud
from tests.live.test_clients import ADMIN, boot, until_status


def whimbrel(cloud: RunningCloud, *words: str) -> str:
    done = cloud.run("whimbrel", *words)
    assert done.returncode == 0, f"whimbrel {' '.join(words)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def zone(server: Any) -> str:
    return str(server["OS-EXT-AZ:availability_zone"])


@pytest.mark.long
def test_a_server_stays_in_its_zone_until_it_is_moved_to_another(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud:
        server = boot(cloud, "web", "--availability-zone", "north")["id"]
        refused = cloud.refusal("server", "migrate", "--host", "s1", server, cloud=ADMIN)
        assert "Compute host s1 is in zone south, where the server cannot go: it is pinned to zone north" in refused
        assert "zone north is now boreal" in whimbrel(cloud, "zone", "rename", "north", "boreal")
        assert "boreal" in whimbrel(cloud, "zone", "list")
        assert zone(cloud.openstack("server", "show", server)) == "boreal"
        [listed] = cloud.openstack("aggregate", "list", "--long", cloud=ADMIN)[:1]
        assert (listed["Name"], listed["Availability Zone"]) == ("north", "boreal")

        assert "server web is on s" in whimbrel(cloud, "server", "move", "web", "--zone", "south", "--wait")
        assert zone(until_status(cloud, server, "VERIFY_RESIZE")) == "south"
        cloud.say("server", "resize", "confirm", server)
        until_status(cloud, server, "ACTIVE")
        newest = ("--os-compute-api-version", "2.96", "server", "show", server)
        assert cloud.openstack(*newest)["pinned_availability_zone"] == "south"
        refused = cloud.run("whimbrel", "server", "move", "web", "--host", "n1").stderr
        assert "Compute host n1 is in zone boreal" in refused

        cloud.say("aggregate", "create", "--zone", "spare", "racks", cloud=ADMIN)
        refused = cloud.run("whimbrel", "zone", "delete", "spare").stderr
        assert "Availability zone spare cannot be deleted: carried by aggregates: racks." in refused
        cloud.say("aggregate", "delete", "racks", cloud=ADMIN)
        assert "zone spare is deleted" in whimbrel(cloud, "zone", "delete", "spare")
        assert "spare" not in whimbrel(cloud, "zone", "list")
        refused = cloud.run("whimbrel", "zone", "delete", "south").stderr
        assert f"carried by aggregates: south; servers are in it: {server}." in refused
        refused = cloud.refusal(
            "aggregate",
            "remove",
            "host",
            "south",
            cloud.openstack("server", "show", server, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"],
            cloud=ADMIN,
        )
        assert "One or more hosts contain instances in this zone" in refused
