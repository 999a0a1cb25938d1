"""The definition has the hardware that a guest asks for; one that asks for nothing has the one that it always had."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from whimbrel.adapters.libvirt import transfer_xml
from whimbrel.adapters.libvirt.domain_xml import domain_xml
from whimbrel.adapters.libvirt.slots import Rescue, SlotDirectory, Slots
from whimbrel.domain.config_drive import ConfigDrive
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.guest_hardware import CpuTopology, Hardware
from whimbrel.domain.ids import ProjectId, ServerId, Slot
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.domain.server_devices import GuestNic, GuestVolume

KEY = GuestKey(ServerId("0b8a3f6e-8d0c-4c7e-9d51-0a8f7a3f2b11"), Slot("run-1"))
NBD = {"driver_volume_type": "nbd", "data": {"server": "h", "port": 1, "export": "e"}}
VOLUME = GuestVolume(volume_id="v", attachment_id="a", device="/dev/vdc", connection=NBD)
SPEC = GuestSpec(
    key=KEY, name="web", vcpus=4, memory_mib=64, root_gib=1, image_id="i", project_id=ProjectId("p"), swap_mib=1,
    nics=(GuestNic(port_id="p1", mac="fa:16:3e:00:00:01", vif_type="bridge"),), volumes=(VOLUME,),
    config_drive=ConfigDrive(),
)  # fmt: skip

ALWAYS = (
    '<os><type machine="pc">hvm</type></os><features><acpi /><apic /></features>'
    "<on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash><devices>"
    '<disk type="file" device="disk"><driver name="qemu" type="qcow2" cache="writeback" discard="unmap" />'
    '<source file="SLOT/disk.qcow2" /><target dev="vda" bus="virtio" /><boot order="1" /></disk>'
    '<disk type="file" device="disk"><driver name="qemu" type="qcow2" cache="writeback" discard="unmap" />'
    '<source file="SLOT/swap.qcow2" /><target dev="vdb" bus="virtio" /></disk>'
    '<disk type="file" device="cdrom"><driver name="qemu" type="raw" /><source file="SLOT/config.iso" />'
    '<target dev="hda" bus="ide" /><readonly /></disk>'
    '<disk type="network" device="disk"><driver name="qemu" type="raw" cache="none" discard="unmap" />'
    '<source protocol="nbd" name="e"><host name="h" port="1" /><reconnect delay="60" /></source>'
    '<target dev="vdc" bus="virtio" /><serial>v</serial></disk>'
    '<interface type="user"><model type="virtio" /><mac address="fa:16:3e:00:00:01" /><alias name="ua-nic-p1" />'
    "</interface>"
    '<serial type="pty"><source path="SLOT/console.log" /><log file="SLOT/console.log" append="on" />'
    '<target port="0" /></serial><graphics type="vnc"><listen type="socket" /></graphics>'
    '<video><model type="vga" vram="16384" heads="1" /></video>'
    '<controller type="usb" model="none" /><memballoon model="none" />'
    '<rng model="virtio"><backend model="random">/dev/urandom</backend></rng></devices></domain>'
)


@pytest.fixture
def slot(tmp_path: Path) -> SlotDirectory:
    found = Slots(tmp_path).at(KEY)
    found.path.mkdir(parents=True)
    return found


def text(slot: SlotDirectory, hardware: Hardware, virt_type: str = "qemu", **changes: Any) -> str:
    return domain_xml(replace(SPEC, hardware=hardware, **changes), slot, virt_type, "user")


def made(slot: SlotDirectory, hardware: Hardware, virt_type: str = "qemu", **changes: Any) -> ET.Element:
    return ET.fromstring(text(slot, hardware, virt_type, **changes))


def targets(root: ET.Element) -> list[tuple[str | None, str | None]]:
    return [(target.get("dev"), target.get("bus")) for target in root.iterfind("devices/disk/target")]


def only(root: ET.Element, path: str) -> dict[str, str]:
    [found] = root.iterfind(path)
    return dict(found.attrib)


def test_a_guest_that_asks_for_nothing_has_the_definition_that_it_always_had(slot: SlotDirectory) -> None:
    after = text(slot, Hardware()).partition("<vcpu>4</vcpu>")[2]
    assert after.replace(str(slot.path), "SLOT") == ALWAYS


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [
        (Hardware(disk_bus="scsi", scsi_model="virtio-scsi"),
         [("sda", "scsi"), ("sdb", "scsi"), ("hda", "ide"), ("sdc", "scsi")]),
        (Hardware(disk_bus="sata", machine="q35"),
         [("sda", "sata"), ("sdb", "sata"), ("sdf", "sata"), ("sdc", "sata")]),
        (Hardware(disk_bus="ide"), [("hda", "ide"), ("hdb", "ide"), ("hdd", "ide"), ("hdc", "ide")]),
        (Hardware(disk_bus="usb", cdrom_bus="usb"), [("sda", "usb"), ("sdb", "usb"), ("sdf", "usb"), ("sdc", "usb")]),
        (Hardware(machine="q35"), [("vda", "virtio"), ("vdb", "virtio"), ("sda", "sata"), ("vdc", "virtio")]),
        (Hardware(root_bus="sata"), [("sda", "sata"), ("vdb", "virtio"), ("hda", "ide"), ("vdc", "virtio")]),
    ],
    ids=str,
)  # fmt: skip
def test_disks_are_on_their_bus_and_keep_their_letters(
    slot: SlotDirectory, hardware: Hardware, expected: list[tuple[str, str]]
) -> None:
    assert targets(made(slot, hardware)) == expected


def test_a_volume_has_the_bus_and_the_kind_that_its_request_names(slot: SlotDirectory) -> None:
    cdrom = replace(VOLUME, device_type="cdrom")
    root = made(slot, Hardware(), volumes=(replace(cdrom, bus="sata"),))
    assert targets(root)[-1] == ("sdc", "sata")
    disk = root.findall("devices/disk")[-1]
    assert (disk.get("device"), disk.find("readonly") is not None) == ("cdrom", True)
    assert targets(made(slot, Hardware(), volumes=(cdrom,)))[-1] == ("hdc", "ide")
    assert targets(made(slot, Hardware(disk_bus="scsi"), volumes=(replace(VOLUME, bus="usb"),)))[-1] == ("sdc", "usb")


def test_controllers_are_those_of_the_buses(slot: SlotDirectory) -> None:
    root = made(slot, Hardware(disk_bus="scsi", scsi_model="virtio-scsi"))
    assert only(root, "devices/controller[@type='scsi']") == {"type": "scsi", "model": "virtio-scsi"}
    root = made(slot, Hardware(disk_bus="scsi", keyboard="usb"))
    assert root.find("devices/controller[@type='scsi']") is None, "libvirt chooses the model"
    assert only(root, "devices/controller[@type='usb']")["model"] == "qemu-xhci"


def test_uefi_keeps_its_variables_in_the_slot(slot: SlotDirectory) -> None:
    root = made(slot, Hardware(firmware="uefi", machine="q35", boot_menu=True))
    assert only(root, "os") == {"firmware": "efi"}
    assert only(root, "os/type") == {"machine": "q35"}
    assert root.findtext("os/nvram") == str(slot.nvram)
    assert only(root, "os/bootmenu") == {"enable": "yes"}


def test_single_devices(slot: SlotDirectory) -> None:
    hardware = Hardware(
        vif_model="e1000", video_model="qxl", video_ram_mib=32, rng_rate_bytes=5, rng_period_ms=7, watchdog="reset",
        serial_ports=3, tablet="usb", keyboard="virtio", hpet=False,
    )  # fmt: skip
    root = made(slot, hardware)
    assert only(root, "devices/interface/model") == {"type": "e1000"}
    assert only(root, "devices/video/model") == {"type": "qxl", "vram": "32768", "heads": "1"}
    assert only(root, "devices/rng/rate") == {"bytes": "5", "period": "7"}
    assert only(root, "devices/watchdog") == {"model": "i6300esb", "action": "reset"}
    assert [port.get("port") for port in root.iterfind("devices/serial/target")] == ["0", "1", "2"]
    assert [dict(found.attrib) for found in root.iterfind("devices/input")] == [
        {"type": "tablet", "bus": "usb"},
        {"type": "keyboard", "bus": "virtio"},
    ]
    assert only(root, "clock/timer") == {"name": "hpet", "present": "no"}
    bare = made(slot, Hardware(rng=False, video_model="none"))
    assert bare.find("devices/rng") is None
    assert only(bare, "devices/video/model") == {"type": "none"}


@pytest.mark.parametrize("virt_type", ["qemu", "kvm"])
def test_processors_and_what_windows_expects(slot: SlotDirectory, virt_type: str) -> None:
    root = made(slot, Hardware(topology=CpuTopology(1, 2, 2), is_windows=True), virt_type)
    assert only(root, "cpu/topology") == {"sockets": "1", "dies": "1", "cores": "2", "threads": "2"}
    assert only(root, "cpu") == ({"mode": "host-model"} if virt_type == "kvm" else {})
    assert only(root, "clock") == {"offset": "localtime"}
    assert (root.find("features/hyperv") is not None) == (virt_type == "kvm")


def test_a_rescued_guest_has_its_root_disk_second_on_its_own_bus(slot: SlotDirectory) -> None:
    slot.write_rescue(Rescue(RescueDisk(image_id="r"), is_used=True))
    assert targets(made(slot, Hardware(disk_bus="sata"), config_drive=None)) == [("vda", "virtio"), ("sdb", "sata")]


def test_a_live_transfer_takes_the_variables_of_the_target(slot: SlotDirectory, tmp_path: Path) -> None:
    hardware = Hardware(firmware="uefi", machine="q35")
    (tmp_path / "other").mkdir()
    other = Slots(tmp_path / "other").at(KEY)
    live, there = text(slot, hardware), text(other, hardware)
    moved = ET.fromstring(transfer_xml.at_target(live.replace("<nvram>", "<nvram template='/t'>"), there, "running"))
    assert (moved.findtext("os/nvram"), only(moved, "os/nvram")) == (str(other.nvram), {})
    assert transfer_xml.machine_of(live) == "q35"


def test_a_guest_comes_with_its_variables_unless_it_has_its_own(slot: SlotDirectory) -> None:
    assert slot.read_variables() == b""
    slot.nvram.write_bytes(b"first")
    first = slot.read_variables()
    slot.nvram.unlink()
    assert slot.take_variables(replace(SPEC, firmware_variables=first)) == SPEC
    assert slot.nvram.read_bytes() == b"first"
    slot.nvram.write_bytes(b"own")
    slot.take_variables(replace(SPEC, firmware_variables=first))
    assert slot.nvram.read_bytes() == b"own"
