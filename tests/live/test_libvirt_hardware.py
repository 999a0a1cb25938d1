"""Real guests with the hardware that their images and flavors ask for: it is the same after each move, and so are the
variables of their UEFI.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair  # noqa: F401
from tests.live.libvirt_hosts import require_uefi
from tests.live.test_libvirt_cloud import Cloud, cloud_of
from whimbrel.adapters.libvirt.slots import SlotDirectory, Slots
from whimbrel.embedded.tick_guest import image as tick_image

pytestmark = pytest.mark.long

Q35 = {
    "hw_machine_type": "q35",
    "hw_disk_bus": "sata",
    "hw_vif_model": "e1000",
    "hw_rng_model": "virtio",
    "hw_watchdog_action": "pause",
    "hw_video_model": "virtio",
    "hw_input_bus": "usb",
    "hw_serial_port_count": "2",
    "hw_boot_menu": "yes",
    "hw_time_hpet": "false",
    "hw_cpu_cores": "2",
}
UEFI = {
    "hw_machine_type": "q35",
    "hw_firmware_type": "uefi",
    "hw_disk_bus": "scsi",
    "hw_scsi_model": "virtio-scsi",
    "hw_cdrom_bus": "scsi",
    "hw_vif_model": "e1000e",
}
SPECS = {"hw_rng:rate_bytes": "1024", "hw_rng:rate_period": "500"}
SIZES = {"vcpus": 2, "ram": 96, "disk": 1}
GUEST_SEES = (
    *("os/type", "cpu/topology", "clock/timer", "devices/disk/target", "devices/interface/model"),
    *("devices/controller[@type='scsi']", "devices/controller[@type='usb']", "devices/watchdog"),
    *("devices/rng/rate", "devices/video/model", "devices/input[@bus='usb']", "devices/serial/target"),
)


@pytest.fixture
def cloud(libvirt_pair: LibvirtPair) -> Iterator[Cloud]:  # noqa: F811
    with cloud_of(libvirt_pair) as found:
        for name in ("small", "large"):
            flavor = {"id": name, "name": name, **SIZES, "ram": SIZES["ram"] + (32 if name == "large" else 0)}
            found.operator.post("compute", "/flavors", {"flavor": flavor})
            found.operator.post("compute", f"/flavors/{name}/os-extra_specs", {"extra_specs": SPECS})
        yield found


def image_with(cloud: Cloud, properties: dict[str, str]) -> str:
    kind = {"name": "guest", "disk_format": "raw", "container_format": "bare"}
    made: str = cloud.member.post("image", "/v2/images", {**kind, **properties})["id"]
    cloud.member.put("image", f"/v2/images/{made}/file", content=tick_image(for_live_moves=True))
    return made


def hardware(cloud: Cloud, pair: LibvirtPair) -> dict[str, list[dict[str, str]]]:
    """Return what the only guest sees, as libvirt says it of the running domain."""
    [(host, guest)] = cloud.guests()
    with pair.hosts.connection(host) as connection:
        root = ET.fromstring(connection.lookupByUUIDString(guest.key.server).XMLDesc())
    return {path: [dict(found.attrib) for found in root.iterfind(path)] for path in GUEST_SEES}


def names(seen: dict[str, list[dict[str, str]]], path: str, key: str) -> list[str]:
    return [found.get(key, "") for found in seen[path]]


def slot(cloud: Cloud, pair: LibvirtPair) -> SlotDirectory:
    [(host, guest)] = cloud.guests()
    return Slots(pair.directory(host)).at(guest.key)


def test_a_guest_keeps_the_hardware_that_it_asked_for(cloud: Cloud, libvirt_pair: LibvirtPair) -> None:  # noqa: F811
    server = cloud.boot(imageRef=image_with(cloud, Q35), flavorRef="small", config_drive=True)
    cloud.until(lambda: cloud.boots(server) == 1)
    first = hardware(cloud, libvirt_pair)
    [machine] = names(first, "os/type", "machine")
    assert machine.startswith("pc-q35-")
    assert first["devices/disk/target"] == [{"dev": "sda", "bus": "sata"}, {"dev": "sdf", "bus": "sata"}]
    assert names(first, "devices/interface/model", "type") == ["e1000"]
    assert [(one["model"], one["action"]) for one in first["devices/watchdog"]][:1] == [("i6300esb", "pause")]
    assert first["devices/rng/rate"] == [{"bytes": "1024", "period": "500"}]
    assert names(first, "devices/video/model", "type") == ["virtio"]
    assert names(first, "devices/input[@bus='usb']", "type") == ["tablet", "keyboard"]
    assert names(first, "devices/serial/target", "port") == ["0", "1"]
    assert first["cpu/topology"] == [{"sockets": "1", "dies": "1", "cores": "2", "threads": "1"}]
    assert {"name": "hpet", "present": "no"} in first["clock/timer"]

    cloud.act(server, "SHUTOFF", {"os-stop": None})
    cloud.act(server, "ACTIVE", {"os-start": None})
    cloud.until(lambda: cloud.boots(server) == 2)
    assert hardware(cloud, libvirt_pair) == first
    move_in_every_way(cloud, libvirt_pair, server, first)
    cloud.until(lambda: cloud.boots(server) == 3)  # by the resize, and by no live migration


def move_in_every_way(cloud: Cloud, pair: LibvirtPair, server: str, first: dict[str, Any]) -> None:
    [(source, _)] = cloud.guests()
    cloud.act(server, "VERIFY_RESIZE", {"resize": {"flavorRef": "large"}})
    cloud.act(server, "ACTIVE", {"confirmResize": None})
    [(target, _)] = cloud.guests()
    assert (target != source, hardware(cloud, pair)) == (True, first)
    cloud.act(server, "ACTIVE", {"os-migrateLive": {"host": None, "block_migration": "auto"}})
    [(back, _)] = cloud.guests()
    assert (back, hardware(cloud, pair)) == (source, first)


def test_the_variables_of_uefi_go_with_the_guest(cloud: Cloud, libvirt_pair: LibvirtPair) -> None:  # noqa: F811
    require_uefi()
    server = cloud.boot(imageRef=image_with(cloud, UEFI), flavorRef="small", config_drive=True)
    first = hardware(cloud, libvirt_pair)
    assert first["devices/disk/target"] == [{"dev": "sda", "bus": "scsi"}, {"dev": "sdf", "bus": "scsi"}]
    assert names(first, "devices/controller[@type='scsi']", "model") == ["virtio-scsi"]
    blank = slot(cloud, libvirt_pair).nvram.read_bytes()
    cloud.until(lambda: slot(cloud, libvirt_pair).nvram.read_bytes() != blank)  # the firmware has written its own
    move_in_every_way(cloud, libvirt_pair, server, first)
    cloud.act(server, "SHUTOFF", {"os-stop": None})
    written = slot(cloud, libvirt_pair).nvram.read_bytes()
    assert written != blank
    left = slot(cloud, libvirt_pair).path
    cloud.act(server, "VERIFY_RESIZE", {"migrate": None})
    cloud.act(server, "SHUTOFF", {"confirmResize": None})
    assert slot(cloud, libvirt_pair).path != left
    assert slot(cloud, libvirt_pair).nvram.read_bytes() == written
    assert not left.exists()
    cloud.act(server, "ACTIVE", {"os-start": None})
    assert hardware(cloud, libvirt_pair) == first
    there = slot(cloud, libvirt_pair).nvram
    cloud.member.delete("compute", f"/servers/{server}")
    cloud.until(lambda: cloud.guests() == [])
    assert not there.exists()
