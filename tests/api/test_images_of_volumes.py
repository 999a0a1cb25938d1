"""createImage of a server that boots from a volume, and servers that boot from such images."""

import msgspec

from tests.api.devices import volume
from tests.api.front import Front, fault
from tests.api.test_create_devices import device
from whimbrel.ports.services.images import Image
from whimbrel.servers import lookup

BROKEN = "99999999-9999-4999-8999-999999999993"


async def test_an_image_names_snapshots_and_boots_from_new_volumes(front: Front) -> None:
    root, data = volume(front, is_bootable=True), volume(front)
    devices = [device("volume", root, "volume", boot_index=0), device("volume", data, "volume")]
    server_id = await front.boot(imageRef="", block_device_mapping_v2=devices)
    answer = await front.act(server_id, {"createImage": {"name": "of volumes"}})
    assert answer.status_code == 202
    image_id = answer.json()["image_id"]
    assert (await front.world.images.show(image_id)).status == "queued"
    await front.settle()
    image = await front.world.images.show(image_id)
    assert (image.status, image.size_bytes) == ("active", 0)
    mapping = msgspec.json.decode(image.properties["block_device_mapping"])
    assert [(one["boot_index"], one["device_name"]) for one in mapping] == [(0, "/dev/vda"), (None, "/dev/vdb")]
    assert len(front.world.remains.volumes.snapshots()) == 2

    copy = await lookup.find(front.world.cloud, await front.boot(imageRef=image_id))
    assert (copy.vm_state, copy.image_id, copy.has_local_root) == ("active", None, False)
    assert [one.device for one in copy.volumes] == ["/dev/vda", "/dev/vdb"]
    assert not {one.volume_id for one in copy.volumes} & {root, data}


async def test_a_server_goes_without_its_volume_that_has_a_snapshot(front: Front) -> None:
    root, data = volume(front, is_bootable=True), volume(front)
    devices = [
        device("volume", root, "volume", boot_index=0, delete_on_termination=True),
        device("volume", data, "volume", delete_on_termination=True),
    ]
    server_id = await front.boot(imageRef="", block_device_mapping_v2=devices)
    front.world.remains.volumes.add_snapshot(front.world.cloud.ids.uuid(), root)
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await front.settle()
    assert (await front.ask("GET", f"/servers/{server_id}")).status_code == 404
    assert front.world.remains.volumes.ids() == [root]
    assert (await front.world.remains.volumes.volume(root)).status == "available"


async def test_a_server_whose_volumes_are_being_imaged_shows_it(front: Front) -> None:
    root = volume(front, is_bootable=True)
    devices = [device("volume", root, "volume", boot_index=0)]
    server_id = await front.boot(imageRef="", block_device_mapping_v2=devices)
    assert (await front.act(server_id, {"createImage": {"name": "of volumes"}})).status_code == 202
    assert (await front.show(server_id))["OS-EXT-STS:task_state"] == "image_snapshot_pending"
    said = fault(await front.act(server_id, {"pause": None}), "conflictingRequest", 409)
    assert said == f"Cannot 'pause' instance {server_id} while it is in task_state image_snapshot_pending"
    await front.settle()
    assert (await front.show(server_id))["OS-EXT-STS:task_state"] is None


async def test_a_mapping_that_cannot_be_read_is_refused(front: Front) -> None:
    properties = {"block_device_mapping": "no list"}
    image = Image(id=BROKEN, name="b", status="active", disk_format="raw", size_bytes=0, checksum=None,
                  visibility="public", properties=properties)  # fmt: skip
    await front.world.images.create(image)
    requested = {"server": {"name": "s", "flavorRef": "1", "imageRef": BROKEN, "networks": "none"}}
    assert "cannot be read" in fault(await front.ask("POST", "/servers", requested), "badRequest", 400)
