"""The devices of a rescued guest as libvirt XML: its rescue disk first, then its own."""

import xml.etree.ElementTree as ET
from pathlib import Path
from string import ascii_lowercase

from whimbrel.domain.guest_hardware import PREFIXES
from whimbrel.domain.rescue_disk import RescueDisk


def boot_from_rescue_disk(devices: ET.Element, rescue: RescueDisk, file: Path) -> None:
    """Change the devices of a definition so that the guest boots from its rescue disk."""
    own = devices.findall("disk")
    for disk in own:
        for boot in disk.findall("boot"):
            disk.remove(boot)
    if not rescue.is_stable:
        for disk in own[1:]:
            if disk.get("device") != "cdrom":  # the rescue system reads the config drive
                devices.remove(disk)
        root = _target(own[0])
        root.set("dev", PREFIXES.get(root.get("bus", ""), "vd") + "b")
    names = {_target(disk).get("dev", "") for disk in devices.iterfind("disk")}
    devices.insert(0, _disk(rescue, file, names))
    if rescue.bus == "scsi" and "scsi" not in {_target(disk).get("bus") for disk in own}:
        ET.SubElement(devices, "controller", type="scsi", model="virtio-scsi")


def _disk(rescue: RescueDisk, file: Path, taken: set[str]) -> ET.Element:
    disk = ET.Element("disk", type="file", device=rescue.device)
    ET.SubElement(disk, "driver", name="qemu", type="qcow2")
    ET.SubElement(disk, "source", file=str(file))
    # The first name is the rescue disk's; a guest that keeps its devices gives it one that no volume would get next.
    letters = reversed(ascii_lowercase) if rescue.is_stable and rescue.bus == "virtio" else ascii_lowercase
    name = next(name for letter in letters if (name := PREFIXES[rescue.bus] + letter) not in taken)
    ET.SubElement(disk, "target", dev=name, bus=rescue.bus)
    if rescue.device == "cdrom":
        ET.SubElement(disk, "readonly")
    ET.SubElement(disk, "boot", order="1")
    return disk


def _target(disk: ET.Element) -> ET.Element:
    target = disk.find("target")
    assert target is not None, "each disk has a target"
    return target
