"""The hardware that a guest's image and flavor ask for, as libvirt XML.

Invariant: a guest that asks for nothing has exactly the definition that it had before there were such requests.
Source: https://libvirt.org/formatdomain.html
"""

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator
from pathlib import Path

from whimbrel.domain.guest_hardware import PREFIXES, CpuTopology, Hardware

MACHINE = "pc"  # i440fx: boots everything, and its power button needs no driver
WATCHDOG = "i6300esb"
CDROM_LETTERS = "fedcbazyxwvutsrqponmlkjihg"
"""The letters of CD-ROMs on a bus that has disks, in order: volumes begin with the first ones, and many have few."""


def os_xml(hardware: Hardware, nvram: Path) -> ET.Element:
    """nvram: the file with the variables of UEFI, which libvirt makes from the firmware's template if it is missing."""
    root = ET.Element("os")
    kind = ET.SubElement(root, "type", machine=hardware.machine or MACHINE)
    kind.text = "hvm"
    if hardware.firmware == "uefi":
        root.set("firmware", "efi")
        firmware = ET.SubElement(root, "firmware")
        for feature in ("enrolled-keys", "secure-boot"):
            ET.SubElement(firmware, "feature", enabled="no", name=feature)
        ET.SubElement(root, "nvram").text = str(nvram)
    if hardware.boot_menu:
        ET.SubElement(root, "bootmenu", enable="yes")
    return root


def feature_xml(hardware: Hardware, virt_type: str) -> Iterator[ET.Element]:
    """Return what Windows expects of a hypervisor beside the usual features, where the processor is not emulated."""
    if not hardware.is_windows or virt_type != "kvm":
        return
    hyperv = ET.Element("hyperv")
    for name in ("relaxed", "vapic"):
        ET.SubElement(hyperv, name, state="on")
    ET.SubElement(hyperv, "spinlocks", state="on", retries="8191")
    yield hyperv


def clock_xml(hardware: Hardware) -> ET.Element | None:
    if hardware.hpet is None and not hardware.is_windows:
        return None
    clock = ET.Element("clock", offset="localtime" if hardware.is_windows else "utc")
    if hardware.hpet is not None:
        ET.SubElement(clock, "timer", name="hpet", present="yes" if hardware.hpet else "no")
    return clock


def topology_xml(topology: CpuTopology) -> ET.Element:
    parts = {"sockets": topology.sockets, "dies": 1, "cores": topology.cores, "threads": topology.threads}
    return ET.Element("topology", {name: str(number) for name, number in parts.items()})


def cdrom_target(hardware: Hardware, taken: Collection[str]) -> dict[str, str]:
    """Return the name and the bus of the config drive. taken: the names of the other disks."""
    bus = hardware.bus_of_cdroms
    prefix = PREFIXES.get(bus, "sd")
    is_shared = prefix in {PREFIXES.get(other) for other in (hardware.disk_bus, hardware.bus_of_root)}
    letters = (letter for letter in CDROM_LETTERS if letter in "abcd") if bus == "ide" else iter(CDROM_LETTERS)
    name = f"{prefix}a" if not is_shared and f"{prefix}a" not in taken else ""
    return {"dev": name or next(one for letter in letters if (one := prefix + letter) not in taken), "bus": bus}


def controllers_xml(hardware: Hardware, buses: Collection[str]) -> Iterator[ET.Element]:
    """Return the controllers that libvirt does not add as requested. buses: of the guest's disks."""
    if "scsi" in buses and hardware.scsi_model:
        yield ET.Element("controller", type="scsi", model=hardware.scsi_model)


def usb_model(hardware: Hardware, buses: Collection[str]) -> str:
    needs_usb = "usb" in buses or "usb" in (hardware.tablet, hardware.keyboard)
    return "qemu-xhci" if needs_usb else "none"


def other_devices(hardware: Hardware) -> Iterator[ET.Element]:
    """Return the devices that only guests that ask for them have."""
    for port in range(1, hardware.serial_ports):
        serial = ET.Element("serial", type="null")  # as with Nova, consoles are of the first port
        ET.SubElement(serial, "target", port=str(port))
        yield serial
    for kind, bus in (("tablet", hardware.tablet), ("keyboard", hardware.keyboard)):
        if bus:
            yield ET.Element("input", type=kind, bus=bus)
    if hardware.watchdog:
        yield ET.Element("watchdog", model=WATCHDOG, action=hardware.watchdog)


def rng_xml(hardware: Hardware) -> ET.Element | None:
    if not hardware.rng:
        return None
    rng = ET.Element("rng", model="virtio")
    if hardware.rng_rate_bytes:
        rate = ET.SubElement(rng, "rate", bytes=str(hardware.rng_rate_bytes))
        if hardware.rng_period_ms:
            rate.set("period", str(hardware.rng_period_ms))
    ET.SubElement(rng, "backend", model="random").text = "/dev/urandom"
    return rng


def video_xml(hardware: Hardware) -> ET.Element:
    video, model = ET.Element("video"), hardware.video_model or "vga"
    attributes = {"type": model}
    if hardware.video_ram_mib:
        attributes["vram"] = str(hardware.video_ram_mib * 1024)
    elif model == "vga":
        attributes["vram"] = "16384"
    if model != "none":
        attributes["heads"] = "1"
    ET.SubElement(video, "model", attributes)
    return video
