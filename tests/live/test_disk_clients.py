"""The unmodified client asks for ephemeral and swap disks, resizes them, and sees on the console which they are."""

import re
from pathlib import Path

import pytest

from tests.live.running_cloud import ADMIN, RunningCloud, running_cloud

pytestmark = pytest.mark.long

DISK = re.compile(r"(ephemeral|swap) disk of (\d+) bytes first used as \S+ on (\w+)")


def test_ephemeral_and_swap_disks(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud:
        for name, ephemeral, swap in (("roomy", "1", "64"), ("roomier", "2", "128")):
            sizes = ("--vcpus", "1", "--ram", "64", "--disk", "1", "--ephemeral", ephemeral, "--swap", swap)
            cloud.say("flavor", "create", *sizes, name, cloud=ADMIN)
        plain = ("server", "create", "--image", "tick", "--no-network", "--flavor", "roomy", "--wait")
        assert "as the flavor says" in cloud.refusal(*plain, "--swap", "32", "small")
        server = cloud.openstack(*plain, "--ephemeral", "size=1", "--swap", "64", "web")
        assert server["status"] == "ACTIVE"
        [(_, size, first), (_, swap, also)] = disks(cloud)
        assert (int(size), int(swap), first) == (1 << 30, 64 << 20, also)
        cloud.say("server", "resize", "--flavor", "roomier", "--wait", "web")
        cloud.say("server", "resize", "confirm", "web")
        [(_, size, still), (_, swap, now)] = disks(cloud)
        assert (int(size), int(swap), still) == (2 << 30, 128 << 20, first)
        assert now != first


def disks(cloud: RunningCloud) -> list[tuple[str, str, str]]:
    """Return name, size and first host of each disk of which the last boot tells."""
    return DISK.findall(cloud.say("console", "log", "show", "web").splitlines()[-1])
