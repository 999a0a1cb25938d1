"""Servers with hardware of their own: what is refused at the request, where they are placed, what their guests have."""

from typing import Any

import msgspec
import pytest

from tests.api.devices import volume
from tests.api.front import Front, fault
from tests.api.test_plans import planned
from tests.api.test_rebuild import NEW_IMAGE, add_image, rebuild
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.guest_hardware import NO_REQUESTS, TRAITS, Hardware
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.domain.server import Server
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import CELL, IMAGE

WATCHED = Flavor(
    flavor_id="9", name="watched", vcpus=1, memory_mib=512, root_gib=1, extra_specs={"hw:watchdog_action": "reset"}
)
SATA = {"hw_disk_bus": "sata"}
UEFI = {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}
HOSTS = ("h1", "h2", "h3")


async def give_traits(front: Front, *hosts: str) -> None:
    cloud = front.world.cloud
    for name in hosts:
        host = await cloud.cell(CELL).hosts.get(HostName(name))
        await cloud.placement.set_traits(host.id, None, TRAITS)


async def record(front: Front, server_id: str) -> Server:
    return await lookup.find(front.world.cloud, ServerId(server_id))


async def spec(front: Front, server_id: str) -> GuestSpec:
    """Return what the guest's host was told of it."""
    found = await record(front, server_id)
    world = front.world.hypervisors[HostName(found.host or "")]
    return (await world._guests.get(GuestKey(found.id, Slot(found.slot or "")))).spec


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"hw_disk_bus": "ribbon"}, "'hw_disk_bus' cannot be 'ribbon'"),
        ({"hw_video_ram": "16"}, "higher than the maximum allowed by flavor"),
        ({"hw_machine_type": "q35", "hw_cdrom_bus": "ide"}, "has no bus 'ide'"),
    ],
)
async def test_what_no_guest_can_have_is_refused_at_the_request(
    front: Front, properties: dict[str, str], words: str
) -> None:
    await add_image(front, properties=properties)
    requested = {"name": "one", "flavorRef": "1", "imageRef": NEW_IMAGE, "networks": "none"}
    assert words in fault(await front.ask("POST", "/servers", {"server": requested}), "badRequest", 400)
    server_id = await front.boot()
    answer = await front.act(server_id, {"rebuild": {"imageRef": NEW_IMAGE}})
    assert words in fault(answer, "badRequest", 400)


async def test_a_flavor_whose_hardware_is_invalid_is_refused_by_a_resize(front: Front) -> None:
    bad = Flavor(flavor_id="9", name="b", vcpus=1, memory_mib=1, root_gib=1, extra_specs={"hw:watchdog_action": "bark"})
    await front.world.cloud.flavors.create(bad, 0.0)
    answer = await front.act(await front.boot(), {"resize": {"flavorRef": "9"}})
    assert "'hw:watchdog_action' cannot be 'bark'" in fault(answer, "badRequest", 400)


async def test_hosts_without_the_hardware_are_passed_over_and_the_plan_says_why(front: Front) -> None:
    await add_image(front, properties={**SATA, **UEFI})
    nowhere = await front.boot(imageRef=NEW_IMAGE)
    assert (await front.show(nowhere))["status"] == "ERROR"
    await give_traits(front, "h2")
    server_id = await front.boot(imageRef=NEW_IMAGE)
    assert (await record(front, server_id)).host == "h2"
    plan = await planned(front, server_id, action="migrate")
    by_host = {one["host"]: one["reason"]["words"] for one in plan["considered"]}
    assert "COMPUTE_FIRMWARE_UEFI" in by_host["h1"] or "COMPUTE_STORAGE_BUS_SATA" in by_host["h1"], by_host
    assert not plan["found"]


async def test_a_resize_keeps_what_the_image_asks_for_and_takes_what_the_flavor_does(front: Front) -> None:
    await give_traits(front, *HOSTS)
    await front.world.cloud.flavors.create(WATCHED, 0.0)
    await add_image(front, properties=SATA)
    server_id = await front.boot(imageRef=NEW_IMAGE)
    assert (await spec(front, server_id)).hardware == Hardware(disk_bus="sata")
    await front.act(server_id, {"resize": {"flavorRef": "9"}})
    await front.settle()
    assert (await spec(front, server_id)).hardware == Hardware(disk_bus="sata", watchdog="reset")
    await front.act(server_id, {"revertResize": None})
    await front.settle()
    assert (await spec(front, server_id)).hardware == Hardware(disk_bus="sata")
    await rebuild(front, server_id, IMAGE)
    await front.settle()
    assert (await spec(front, server_id)).hardware == NO_REQUESTS


async def test_a_guest_of_an_older_release_keeps_its_hardware_until_it_is_rebuilt(front: Front) -> None:
    await add_image(front, properties=SATA)
    server_id = await front.boot()
    old = await record(front, server_id)
    await front.world.cloud.cell(CELL).servers.change(
        old, {"heeds_hardware": False, "image_properties": SATA, "image_id": NEW_IMAGE}
    )
    await front.act(server_id, {"migrate": None}, who="admin")
    await front.settle()
    await front.act(server_id, {"confirmResize": None})
    await front.settle()
    assert (await spec(front, server_id)).hardware == NO_REQUESTS
    await front.act(server_id, {"rebuild": {"imageRef": NEW_IMAGE}})
    await front.settle()
    assert (await spec(front, server_id)).hardware == NO_REQUESTS, "its host lacks the hardware"
    await give_traits(front, *HOSTS)
    await rebuild(front, server_id, IMAGE)
    await front.settle()
    await rebuild(front, server_id, NEW_IMAGE)
    await front.settle()
    assert (await spec(front, server_id)).hardware == Hardware(disk_bus="sata")


@pytest.mark.parametrize("way", ["resize", "migrate live", "shelve"])
async def test_the_variables_of_uefi_go_with_the_guest(front: Front, way: str) -> None:
    await give_traits(front, *HOSTS)
    await add_image(front, properties=UEFI)
    server_id = await front.boot(imageRef=NEW_IMAGE)
    first = await record(front, server_id)
    actions: dict[str, list[dict[str, Any]]] = {
        "resize": [{"resize": {"flavorRef": "2"}}, {"confirmResize": None}],
        "migrate live": [{"os-migrateLive": {"host": None, "block_migration": "auto"}}],
        "shelve": [{"shelve": None}, {"unshelve": None}],
    }
    for action in actions[way]:
        answer = await front.act(server_id, action, who="admin")
        assert answer.status_code in (202, 204), answer.text
        await front.settle()
    moved = await record(front, server_id)
    assert (moved.vm_state, moved.slot != first.slot, moved.shelved_variables) == ("active", True, b"")
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    agent = front.world.cloud.agent(CELL, HostName(moved.host or ""))
    key = GuestKey(moved.id, Slot(moved.slot or ""))
    assert await agent.firmware_variables(key) == (first.slot or "").encode()
    await rebuild(front, server_id, NEW_IMAGE)
    await front.settle()
    anew = await record(front, server_id)
    key = GuestKey(anew.id, Slot(anew.slot or ""))
    assert await agent.firmware_variables(key) == (anew.slot or "").encode(), "a rebuild begins with none"


async def test_block_devices_have_their_bus_and_their_kind(front: Front) -> None:
    await give_traits(front, *HOSTS)
    there = volume(front)
    root = {"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0, "disk_bus": "sata"}
    disc = {
        "source_type": "volume",
        "uuid": there,
        "destination_type": "volume",
        "boot_index": -1,
        "disk_bus": "scsi",
        "device_type": "cdrom",
        "device_name": "/dev/sdb",
        "tag": "t",
    }
    server_id = await front.boot(block_device_mapping_v2=[root, disc], config_drive=True)
    assert (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:root_device_name"] == "/dev/sda"
    path = f"/servers/{server_id}/os-volume_attachments"
    assert [one["device"] for one in (await front.get(path))["volumeAttachments"]] == ["/dev/sdb"]
    same = {"volumeId": there, "device": "/dev/sdb", "delete_on_termination": True}
    assert (await front.ask("PUT", f"{path}/{there}", {"volumeAttachment": same})).status_code == 202
    await front.settle()
    told = await spec(front, server_id)
    drive = told.config_drive
    assert drive
    described = msgspec.json.decode(drive.contents["openstack/latest/meta_data.json"])
    assert [one["path"] for one in described["devices"]] == ["/dev/sdb"]
    assert drive.contents["ec2/2009-04-04/meta-data.json"].count(b'"/dev/sda"') == 1
    assert told.hardware == Hardware(root_bus="sata")
    assert [(one.bus, one.device_type, one.device) for one in told.volumes] == [("scsi", "cdrom", "/dev/vdb")]
    await front.act(server_id, {"migrate": None}, who="admin")
    await front.settle()
    moved = await spec(front, server_id)
    assert (moved.hardware, moved.volumes[0].bus) == (Hardware(root_bus="sata"), "scsi")
