"""The unmodified client rescues, backs up, images, dumps, deletes and restores servers."""

import re
from pathlib import Path

import pytest

from tests.live.running_cloud import RunningCloud, running_cloud
from tests.processes import wait_for

pytestmark = pytest.mark.long

SETTINGS = """
[rules]
reclaim_instance_interval_s = 3600
"""
BOOT = re.compile(r"boot (\d+),")


def test_servers_are_rescued_backed_up_and_restored(tmp_path: Path) -> None:
    with running_cloud(tmp_path, settings=SETTINGS) as cloud:
        image = next(one["ID"] for one in cloud.openstack("image", "list") if one["Name"] == "tick")
        cloud.openstack("server", "create", "--image", "tick", "--no-network", "--flavor", "m1.tiny", "--wait", "web")
        rescue(cloud)
        back_up(cloud)
        cloud.say("server", "dump", "create", "web")
        assert "NMI received" in cloud.say("console", "log", "show", "web")
        image_of_volumes(cloud, image)
        delete_and_restore(cloud)
        assert cloud.run("whimbrel", "prove").returncode == 0


def rescue(cloud: RunningCloud) -> None:
    cloud.say("server", "rescue", "--image", "tick", "web")
    wait(cloud, "web", "RESCUE")
    assert "409" in cloud.refusal("server", "reboot", "web")
    cloud.say("server", "unrescue", "web")
    wait(cloud, "web", "ACTIVE")
    last = cloud.say("console", "log", "show", "web").splitlines()[-1]
    assert BOOT.findall(last) == ["2"], "its own disk has booted twice"


def back_up(cloud: RunningCloud) -> None:
    """Back the server up twice, under two names: the client finds its backup by name, before the older one is gone."""
    names = ("monday", "tuesday")
    for name in names:
        cloud.openstack("server", "backup", "create", "--name", name, "--type", "daily", "--rotate", "1", "web")
        wait(cloud, "web", "ACTIVE")
    assert [one["Name"] for one in cloud.openstack("image", "list") if one["Name"] in names] == ["tuesday"]


def image_of_volumes(cloud: RunningCloud, image: str) -> None:
    """Boot from a volume, make an image of that, and boot from this image."""
    words = ("--flavor", "m1.tiny", "--no-network", "--wait")
    cloud.openstack("server", "create", "--image", image, "--boot-from-volume", "1", *words, "onvolume")
    cloud.openstack("server", "image", "create", "--name", "ofvolumes", "--wait", "onvolume")
    assert cloud.openstack("image", "show", "ofvolumes")["size"] == 0
    copy = cloud.openstack("server", "create", "--image", "ofvolumes", *words, "copy")
    assert (copy["status"], len(copy["volumes_attached"])) == ("ACTIVE", 1)


def delete_and_restore(cloud: RunningCloud) -> None:
    web = cloud.openstack("server", "show", "web")["id"]
    cloud.say("server", "delete", "web")
    wait(cloud, web, "SOFT_DELETED")
    assert "web" not in {one["Name"] for one in cloud.openstack("server", "list")}
    cloud.say("server", "restore", web)
    wait(cloud, web, "ACTIVE")
    cloud.say("server", "delete", "--force", web)


def wait(cloud: RunningCloud, server: str, status: str) -> None:
    """Wait until a server has this status and no task."""

    def state() -> tuple[str, str | None]:
        shown = cloud.openstack("server", "show", server)
        return shown["status"], shown["OS-EXT-STS:task_state"]

    wait_for(state, lambda seen: seen == (status, None), f"{server} is {status}")
