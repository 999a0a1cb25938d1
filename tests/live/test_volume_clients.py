"""The unmodified `openstack` client and SDK against the volume service of a running cloud."""

import time
from typing import Any

import pytest

from tests.live.running_cloud import ADMIN, RunningCloud
from tests.processes import HANG_S

pytestmark = pytest.mark.long


def until_available(cloud: RunningCloud, *what: str) -> Any:
    deadline = time.monotonic() + HANG_S
    while (seen := cloud.openstack(*what))["status"] != "available":
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
    return seen


def test_a_volume_is_created_changed_enlarged_snapshot_and_deleted(cloud: RunningCloud) -> None:
    requested = ("--size", "1", "--description", "of ours", "--property", "a=b", "--availability-zone", "north")
    cloud.say("volume", "create", *requested, "life")
    made = until_available(cloud, "volume", "show", "life")
    assert (made["availability_zone"], made["type"]) == ("north", "__DEFAULT__")
    assert made["properties"] == {"a": "b"}
    cloud.say("volume", "set", "--name", "life2", "--property", "c=d", "--bootable", "--size", "2", "life")
    cloud.say("volume", "unset", "--property", "a", "life2")
    seen = until_available(cloud, "volume", "show", "life2")
    assert (seen["size"], seen["properties"], str(seen["bootable"]).lower()) == (2, {"c": "d"}, "true")
    cloud.say("volume", "snapshot", "create", "--volume", "life2", "then")
    assert until_available(cloud, "volume", "snapshot", "show", "then")["size"] == 2
    [listed] = cloud.openstack("volume", "list", "--name", "life2", "--long")
    assert (listed["Status"], listed["Size"]) == ("available", 2)
    assert "has snapshots" in cloud.refusal("volume", "delete", "life2")
    cloud.say("volume", "delete", "--purge", "life2")
    deadline = time.monotonic() + HANG_S
    while cloud.openstack("volume", "list"):
        assert time.monotonic() < deadline


def test_types_and_what_administrators_see(cloud: RunningCloud) -> None:
    assert "403" in cloud.refusal("volume", "type", "create", "not-for-users")
    cloud.say("volume", "type", "create", "--multiattach", "--property", "speed=high", "many", cloud=ADMIN)
    shown = cloud.openstack("volume", "type", "show", "many", cloud=ADMIN)
    assert shown["properties"] == {"multiattach": "<is> True", "speed": "high"}
    assert {each["Name"] for each in cloud.openstack("volume", "type", "list")} == {"__DEFAULT__", "many"}
    services = cloud.openstack("volume", "service", "list", cloud=ADMIN)
    assert {(each["Zone"], each["State"]) for each in services} == {("nova", "up"), ("north", "up"), ("south", "up")}
    limits = {each["Name"]: each["Value"] for each in cloud.openstack("limits", "show", "--absolute")}
    assert limits["max_total_volumes"] == 10
    cloud.say("quota", "set", "--volumes", "11", "demo", cloud=ADMIN)
    quotas = {each["Resource"]: each["Limit"] for each in cloud.openstack("quota", "show", "demo", cloud=ADMIN)}
    assert (quotas["volumes"], quotas["snapshots"]) == (11, 10)


@pytest.mark.parametrize("words", [("--size", "0", "x"), ("--size", "1000000000", "x"), ("--size", "1", "n" * 300)])
def test_bad_input_is_refused(cloud: RunningCloud, words: tuple[str, ...]) -> None:
    said = cloud.refusal("volume", "create", *words)
    assert "500" not in said
    assert "Traceback" not in said


STORY = """
import openstack
from openstack import exceptions

mine, admins = openstack.connect(cloud="whimbrel"), openstack.connect(cloud="whimbrel-admin")
volumes = mine.block_storage


def made(**wish):
    return volumes.wait_for_status(volumes.create_volume(**{"size": 1, **wish}), interval=0.1)


def refused(kind, **wish):
    try:
        volumes.create_volume(**wish)
    except kind as error:
        assert error.response.status_code < 500, error
    else:
        raise AssertionError(wish)


origin = made(name="Ünï \U0001f980 名前")
assert volumes.find_volume("Ünï \U0001f980 名前").id == origin.id
snapshot = volumes.create_snapshot(volume_id=origin.id, name="then")
snapshot = volumes.wait_for_status(snapshot, interval=0.1)
copies = [made(snapshot_id=snapshot.id), made(source_volume_id=origin.id)]
bootable = made(image_id=mine.image.find_image("tick").id)
assert bootable.is_bootable and bootable.volume_image_metadata["image_name"] == "tick"
volumes.upload_volume_to_image(bootable, "taken")
image = mine.image.wait_for_status(mine.image.find_image("taken"), "active", interval=0.1)
assert image.size == 1 << 30
mine.image.delete_image(image)
volumes.extend_volume(origin, 2)
assert volumes.wait_for_status(volumes.get_volume(origin), interval=0.1).size == 2
for wish in ({"size": -1}, {"size": 1, "volume_type": "no such"}, {"size": 1, "image_id": "no such"},
             {"size": 1, "availability_zone": "no such"}, {"size": 1, "metadata": {"k" * 300: "v"}}):
    refused(exceptions.HttpException, **wish)

quotas = admins.block_storage
project = mine.current_project_id
quotas.update_quota_set(project, volumes=4)
refused(exceptions.HttpException, size=1)
assert quotas.get_quota_set(project, usage=True).usage["volumes"] == 4
quotas.revert_quota_set(project)

held, server = copies[0], "11111111-0000-4000-8000-000000000001"
attaching = admins.block_storage
attaching.default_microversion = "3.54"
attachment = attaching.create_attachment(held.id, connector=None, instance=server, mode="rw")
assert attachment.status == "reserved", attachment
attachment = attaching.update_attachment(attachment, connector={"host": "n1", "ip": "127.0.0.1"})
assert attachment.connection_info["driver_volume_type"] == "simulated", attachment
attaching.complete_attachment(attachment)
assert volumes.get_volume(held).status == "in-use"
attaching.delete_attachment(attachment)
assert volumes.get_volume(held).status == "available"

volumes.delete_snapshot(snapshot)
volumes.wait_for_delete(snapshot, interval=0.1, wait=None)
for volume in [origin, bootable, *copies]:
    volumes.wait_for_status(volumes.get_volume(volume), interval=0.1)
    volumes.delete_volume(volume)
    volumes.wait_for_delete(volume, interval=0.1, wait=None)
assert list(volumes.volumes()) == []
print("well")
"""


def test_the_sdk_makes_copies_uploads_enlarges_and_attaches(cloud: RunningCloud) -> None:
    assert cloud.python(STORY).strip() == "well"
