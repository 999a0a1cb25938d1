"""The unmodified client shelves a server and unshelves it, and sees on the console that it has its disks again."""

import re
from pathlib import Path

import pytest

from tests.live.running_cloud import RunningCloud, running_cloud
from tests.live.test_clients import ADMIN, until, until_status

DISK = re.compile(r"(ephemeral|swap) disk of (\d+) bytes first used as \S+ on (\w+)")


@pytest.mark.long
def test_a_server_is_shelved_and_unshelved(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud:
        cloud.say("flavor", "create", "--vcpus", "1", "--ram", "64", "--disk", "1", "--ephemeral", "1", "roomy",
                  cloud=ADMIN)  # fmt: skip
        booted = cloud.openstack(
            "server", "create", "--image", "tick", "--no-network", "--flavor", "roomy", "--wait", "web"
        )
        assert booted["status"] == "ACTIVE"
        [(_, _, first)] = disks(cloud)
        cloud.say("server", "shelve", "--wait", "web")  # which does not wait until it is offloaded too
        until_status(cloud, "web", "SHELVED_OFFLOADED")
        assert cloud.openstack("server", "show", "web", cloud=ADMIN)["OS-EXT-SRV-ATTR:host"] is None
        names = {image["Name"]: image["Status"] for image in cloud.openstack("image", "list")}
        assert names["web-shelved"] == names["web-shelved-ephemeral"] == "active"
        assert "409" in cloud.refusal("server", "start", "web")
        target = next(host for host in ("s1", "s2") if host != first)
        version = ("--os-compute-api-version", "2.91")
        assert "403" in cloud.refusal(*version, "server", "unshelve", "--host", target, "web")
        words = ("server", "unshelve", "--no-availability-zone", "--host", target, "--wait", "web")
        cloud.say(*version, *words, cloud=ADMIN)
        shown = cloud.openstack("server", "show", "web", cloud=ADMIN)
        assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", target)
        assert disks(cloud) == [("ephemeral", str(1 << 30), first)]
        until(lambda: cloud.openstack("image", "list"), lambda seen: [each["Name"] for each in seen] == ["tick"])
        done = [event["Action"] for event in cloud.openstack("server", "event", "list", "web")]
        assert done == ["unshelve", "shelve", "create"]
        moves = cloud.run("whimbrel", "move", "list", "--server", shown["id"])
        assert "unshelve" in moves.stdout
        assert cloud.run("whimbrel", "prove").returncode == 0


def disks(cloud: RunningCloud) -> list[tuple[str, str, str]]:
    """Return name, size and first host of each disk of which the last boot tells."""
    return DISK.findall(cloud.say("console", "log", "show", "web").splitlines()[-1])
