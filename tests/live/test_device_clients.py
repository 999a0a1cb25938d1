"""Unmodified clients that attach and detach without waiting: `openstack`, and openstacksdk in threads."""

import pytest

from tests.live.running_cloud import RunningCloud

pytestmark = pytest.mark.long


STORY = """
from concurrent.futures import ThreadPoolExecutor

import openstack

mine = openstack.connect(cloud="whimbrel")
image, flavor = mine.image.find_image("tick"), mine.compute.find_flavor("m1.tiny")
server = mine.compute.create_server(name="many", image_id=image.id, flavor_id=flavor.id, networks="none")
mine.compute.wait_for_server(server, interval=0.1, wait=None)
volumes = [mine.create_volume(1, name=f"v{number}", wait=True) for number in range(8)]


def attach(volume):
    attached = mine.compute.create_volume_attachment(server, volume_id=volume.id, device="/dev/sdb")
    assert mine.compute.get_volume_attachment(server, volume.id).device == attached.device
    return attached.device


def detach(volume):
    mine.compute.delete_volume_attachment(server, volume.id)


with ThreadPoolExecutor(8) as threads:
    names = list(threads.map(attach, volumes))
    assert sorted(names) == [f"/dev/vd{letter}" for letter in "bcdefghi"], names
    for volume in volumes:
        mine.block_storage.wait_for_status(mine.block_storage.get_volume(volume.id), "in-use", interval=0.1)
    assert {each.volume_id for each in mine.compute.volume_attachments(server)} == {each.id for each in volumes}
    list(threads.map(detach, volumes))
    for volume in volumes:
        mine.block_storage.wait_for_status(mine.block_storage.get_volume(volume.id), "available", interval=0.1)
assert not list(mine.compute.volume_attachments(server))
print("well")
"""


def test_eight_volumes_are_attached_and_detached_in_parallel(cloud: RunningCloud) -> None:
    assert cloud.python(STORY).strip() == "well"


def test_a_network_with_two_ports_is_removed(cloud: RunningCloud) -> None:
    cloud.say("server", "create", "--image", "tick", "--flavor", "m1.tiny", "--no-network", "--wait", "two")
    cloud.say("server", "add", "network", "two", "private")
    cloud.say("server", "add", "network", "two", "private")
    assert len(cloud.openstack("port", "list", "--server", "two")) == 2
    cloud.say("server", "remove", "network", "two", "private")
    cloud.say("server", "delete", "--wait", "two")
