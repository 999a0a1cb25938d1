"""Modes of a data directory, whatever the umask of the user that starts the cloud, and whatever they were before."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.running_cloud import RunningCloud, running_cloud

FILLED = """
import openstack

cloud = openstack.connect(cloud="whimbrel")
image = cloud.image.create_image("i", data=b"0" * 1000, disk_format="raw", container_format="bare")
volume = cloud.block_storage.create_volume(size=1, image_id=image.id)
cloud.block_storage.wait_for_status(volume, "available")
"""


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def readable_by_others(root: Path) -> list[str]:
    found = [root, *root.rglob("*")]
    return sorted(str(path.relative_to(root)) for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077)


def opened(cloud: RunningCloud) -> None:
    """Return everybody all permissions, as a copy of the directory may have them."""
    for path in (cloud.home.path, *cloud.home.path.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)


@pytest.mark.long
def test_other_users_can_read_nothing(open_umask: None, tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud:
        cloud.python(FILLED)
        assert {"db", "images", "volumes"} <= {path.name for path in cloud.home.path.iterdir()}
        assert readable_by_others(cloud.home.path) == []
        cloud.program.kill()
        opened(cloud)
        cloud.program.start()
        cloud.program.wait_until_it_says("Whimbrel is up")
        assert readable_by_others(cloud.home.path) == []
        cloud.python(FILLED)
        assert readable_by_others(cloud.home.path) == []


def test_databases_elsewhere_are_private_too(open_umask: None, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "identity.sqlite").touch(mode=0o666)
    with running_cloud(tmp_path, "--database", f"sqlite:///{elsewhere}"):
        assert [name for name in readable_by_others(elsewhere) if name != "."] == []
