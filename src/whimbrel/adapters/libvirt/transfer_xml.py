"""The XML of live transfers: what a source tells about its guest, and the guest's definition at the target.

Invariant: at the target the guest is the same machine, with the same devices at the same addresses; only what is
outside of it differs: files, servers of volumes, networks, marks.
"""

import copy
import xml.etree.ElementTree as ET
from collections.abc import Collection, Mapping
from types import MappingProxyType

from whimbrel.adapters.libvirt import device_xml
from whimbrel.adapters.libvirt.domain_xml import ASLEEP, NAMESPACE
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Power
from whimbrel.domain.live_transfer import GuestCpu

NO_DEVICES: Mapping[str, str] = MappingProxyType({})

MARK = f"metadata/{{{NAMESPACE}}}guest"
OUTSIDE = ("driver", "source", "backingStore")
"""The elements of a disk that the guest does not see."""
LINE_OUTSIDE = ("source", "log", "protocol")
"""The same of a serial line."""


def at_target(live: str, definition: str, power: Power, pci: Mapping[str, str] = NO_DEVICES) -> str:
    """Return the definition with which the target's libvirt receives a guest.

    live: the guest's, at the source. definition: of its slot at the target. power: what it shall be there: until it is
    woken, it sleeps. pci: address of each of its devices here -> there. Raises: Refused: their devices differ.
    """
    root, there = ET.fromstring(live), ET.fromstring(definition)
    _check_same_devices(live, definition, pci)
    _replace_mark(root, there, power)
    for disk in root.iterfind("devices/disk"):
        _take_outside(disk, _by_device(there, disk))
    devices = _one(root, "devices")
    for at, nic in enumerate(list(devices)):
        if nic.tag == "interface":
            devices[at] = _moved_nic(nic, definition)
    for device in devices.iterfind("hostdev"):
        _replace_host_address(device, pci)
    _replace_consoles(devices, there)
    _replace_variables(root, there)
    return ET.tostring(root, encoding="unicode")


def _check_same_devices(live: str, definition: str, pci: Mapping[str, str]) -> None:
    here, there = device_xml.fitted(live), device_xml.fitted(definition)
    here = here._replace(pci=tuple(pci.get(address, address) for address in here.pci))
    kinds = ("port", "volume", "PCI device")
    for kind, ours, theirs in zip(kinds, here[: len(kinds)], there[: len(kinds)], strict=True):
        if differing := set(ours).symmetric_difference(theirs):
            raise Refused(
                f"{kind} {min(differing)} is in the guest at one host only: a live transfer moves all devices"
            )


def _replace_consoles(devices: ET.Element, there: ET.Element) -> None:
    """Replace the ends of the consoles by those at the target, whose release may be another one.

    libvirt chooses the sockets of the screen and of the guest's agent there.
    """
    serial = _one(there, "devices/serial")
    for console in (*devices.iterfind("serial"), *devices.iterfind("console")):
        console.attrib = {"type": serial.get("type", "")}
        for name in LINE_OUTSIDE:
            for element in console.findall(name):
                console.remove(element)
            console.extend(copy.deepcopy(serial.findall(name)))
    for channel in devices.iterfind("channel[@type='unix']"):
        for source in channel.findall("source"):  # the path of a socket here; libvirt chooses one there
            channel.remove(source)
    for graphics in devices.iterfind("graphics"):
        graphics.attrib = {"type": graphics.get("type", "")}
        for listen in graphics.iterfind("listen[@type='socket']"):
            listen.attrib = {"type": "socket"}


def _replace_variables(root: ET.Element, there: ET.Element) -> None:
    """Replace the file with the variables of UEFI by that at the target; its contents come with the guest's memory."""
    if (nvram := root.find("os/nvram")) is not None:
        nvram.attrib.clear()
        nvram.text = _one(there, "os/nvram").text


def _replace_mark(root: ET.Element, there: ET.Element, power: Power) -> None:
    mark, ours = _one(there, MARK), _one(root, MARK)
    ours.attrib.clear()
    ours.attrib.update({**mark.attrib, ASLEEP: power})


def _by_device(root: ET.Element, disk: ET.Element) -> ET.Element:
    device = _one(disk, "target").get("dev")
    for other in root.iterfind("devices/disk"):
        if _one(other, "target").get("dev") == device:
            return other
    raise Refused(f"the guest's disk {device} is not expected at the target")


def with_disks_of(saved: str, definition: str) -> str:
    """Return a saved guest's XML with the volumes as its definition has them now."""
    root = ET.fromstring(saved)
    for disk in root.iterfind("devices/disk"):
        serial = disk.findtext("serial")
        if serial and (there := device_xml.volume_in(definition, serial)) is not None:
            _take_outside(disk, there)
    return ET.tostring(root, encoding="unicode")


def _take_outside(disk: ET.Element, there: ET.Element) -> None:
    disk.set("type", there.get("type", ""))
    for name in OUTSIDE:
        for element in disk.findall(name):
            disk.remove(element)
        disk.extend(there.findall(name))


def _moved_nic(nic: ET.Element, definition: str) -> ET.Element:
    port = device_xml.port_of(nic)
    there = device_xml.nic_in(definition, port) if port else None
    if there is None:
        raise Refused("the guest has a network interface that is not one of its ports")
    moved = copy.deepcopy(there)
    moved.extend(nic.findall("address"))
    return moved


def _replace_host_address(device: ET.Element, pci: Mapping[str, str]) -> None:
    """Replace the host's side of a passed-through device; its address in the guest stays."""
    for source in device.iterfind("source"):
        for at, address in enumerate(list(source)):
            if address.tag == "address" and (there := pci.get(device_xml.name_of(address))):
                source[at] = device_xml.address_of(there)


def guest_cpu(live: str) -> GuestCpu:
    """Return the processor that a guest sees. live: its live definition, fit for migration."""
    root = ET.fromstring(live)
    kind, cpu = _one(root, "os/type"), root.find("cpu")
    if cpu is None:
        return GuestCpu(arch=kind.get("arch", ""))
    document = ET.Element("guest", {"type": root.get("type", ""), **kind.attrib})
    document.append(cpu)
    wanted = [feature for feature in cpu.iterfind("feature") if feature.get("policy") in ("require", "force")]
    return GuestCpu(
        arch=kind.get("arch", ""),
        vendor=cpu.findtext("vendor") or "",
        model=cpu.findtext("model") or "",
        features=tuple(sorted(feature.get("name", "") for feature in wanted)),
        document=ET.tostring(document, encoding="unicode"),
    )


def machine_of(live: str) -> str:
    """Return the type of a guest's machine, with its version."""
    return _one(ET.fromstring(live), "os/type").get("machine", "")


def immovable(live: str, movable: Collection[str] = ()) -> str:
    """Return why a guest cannot be moved while it runs; "": it can. movable: PCI devices that go with it."""
    devices = _one(ET.fromstring(live), "devices")
    for nic in devices.iterfind("interface[@type='hostdev']"):
        return f"port {device_xml.port_of(nic)} is an SR-IOV virtual function of this host, passed through to the guest"
    passed = device_xml.fitted(live).pci
    for address in sorted({*passed}.difference(movable)):
        return f"PCI device {address} is passed through to the guest"
    if len(devices.findall("hostdev")) > len(passed):
        return "a device of this host is passed through to the guest"
    return ""


def _one(element: ET.Element, path: str) -> ET.Element:
    found = element.find(path)
    if found is None:
        raise Refused(f"the guest's definition has no {path}")
    return found
