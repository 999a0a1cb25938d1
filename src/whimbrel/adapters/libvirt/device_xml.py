"""A guest's NICs, volumes and PCI devices as libvirt XML, and which of them a domain's XML contains.

Invariant: a NIC is identified by its alias, which contains the port's id; a volume by its serial, which is its id.
Source: https://libvirt.org/formatdomain.html
"""

import stat
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from whimbrel.domain.errors import Refused
from whimbrel.domain.server_devices import GuestNic, GuestVolume

Plugging = Literal["tap", "user"]
"""tap: libvirt creates a tap device per NIC, named as Neutron's agents expect; requires root's libvirtd.
user: QEMU's user-mode network, outbound only; requires no privileges.
"""

TAPPED = ("ovs", "bridge", "tap", "distributed", "midonet")
NAME_MAX = 14
RECONNECT_S = 60
"""How long a guest waits for a volume's unreachable server before its I/O fails. Older versions of libvirt ignore this:
then I/O fails immediately.
"""

NIC_ALIAS = "ua-nic-"


class Fitted(NamedTuple):
    """The devices that a domain has now."""

    ports: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()


# NICs


def nic_xml(nic: GuestNic, plugging: Plugging | None) -> ET.Element:
    """Return the XML of a NIC. plugging: None: unsupported on this host. Raises: Refused: the host cannot plug it."""
    if nic.pci_address:
        interface = _virtual_function(nic, nic.pci_address)
    elif nic.vif_type not in TAPPED:
        raise Refused(f"port {nic.port_id} is of type {nic.vif_type!r}: this host plugs {', '.join(TAPPED)}")
    elif plugging is None:
        raise Refused(
            f"port {nic.port_id} needs a tap device, which a libvirt of session mode cannot make: drive this host by"
            " qemu:///system, or let its settings say guest_nics = 'user'"
        )
    else:
        interface = _tap(nic) if plugging == "tap" else ET.Element("interface", type="user")
        ET.SubElement(interface, "model", type="virtio")
    ET.SubElement(interface, "mac", address=nic.mac)
    ET.SubElement(interface, "alias", name=NIC_ALIAS + nic.port_id)
    return interface


def _tap(nic: GuestNic) -> ET.Element:
    interface = ET.Element("interface", type="ethernet")
    ET.SubElement(interface, "target", dev=tap_name(nic))
    if nic.mtu:
        ET.SubElement(interface, "mtu", size=str(nic.mtu))
    return interface


def tap_name(nic: GuestNic) -> str:
    """Return the name by which Neutron's agents know a port's tap device."""
    return f"tap{nic.port_id}"[:NAME_MAX]


def _virtual_function(nic: GuestNic, address: str) -> ET.Element:
    interface = ET.Element("interface", type="hostdev", managed="yes")
    ET.SubElement(interface, "source").append(_address(address))
    if vlan := nic.vif_details.get("vlan"):
        ET.SubElement(ET.SubElement(interface, "vlan"), "tag", id=str(vlan))
    return interface


# PCI devices


def pci_xml(address: str) -> ET.Element:
    device = ET.Element("hostdev", mode="subsystem", type="pci", managed="yes")
    ET.SubElement(device, "source").append(_address(address))
    return device


def _address(address: str) -> ET.Element:
    """Return libvirt's element for `0000:81:00.1`."""
    domain, bus, rest = address.split(":")
    slot, _, function = rest.partition(".")
    numbers = {"domain": domain, "bus": bus, "slot": slot, "function": function}
    return ET.Element("address", {name: f"0x{number}" for name, number in numbers.items()}, type="pci")


# Volumes


def volume_xml(volume: GuestVolume) -> ET.Element:
    """Return the XML of a volume. Raises: Refused: this host cannot reach it."""
    kind, data = volume.connection.get("driver_volume_type"), volume.connection.get("data", {})
    source = SOURCES.get(str(kind))
    if source is None:
        raise Refused(f"volume {volume.volume_id} is reached by {kind!r}: this host knows {', '.join(SOURCES)}")
    try:
        disk = source(data)
    except KeyError as missing:
        raise Refused(f"volume {volume.volume_id} has no {missing} in its connection") from missing
    disk.insert(0, ET.Element("driver", name="qemu", type="raw", cache="none", discard="unmap"))
    ET.SubElement(disk, "target", dev=volume.device.removeprefix("/dev/"), bus="virtio")
    ET.SubElement(disk, "serial").text = volume.volume_id
    if volume.read_only:
        ET.SubElement(disk, "readonly")
    if volume.boot_index is not None and volume.boot_index >= 0:
        ET.SubElement(disk, "boot", order=str(volume.boot_index + 1))
    return disk


def _nbd(data: dict[str, Any]) -> ET.Element:
    disk = ET.Element("disk", type="network", device="disk")
    source = ET.SubElement(disk, "source", protocol="nbd", name=str(data["export"]))
    ET.SubElement(source, "host", name=str(data["server"]), port=str(data["port"]))
    ET.SubElement(source, "reconnect", delay=str(RECONNECT_S))
    return disk


def _local(data: dict[str, Any]) -> ET.Element:
    path = Path(data["device_path"])
    if path.exists() and stat.S_ISBLK(path.stat().st_mode):
        disk = ET.Element("disk", type="block", device="disk")
        ET.SubElement(disk, "source", dev=str(path))
    else:
        disk = ET.Element("disk", type="file", device="disk")
        ET.SubElement(disk, "source", file=str(path))
    return disk


SOURCES: dict[str, Callable[[dict[str, Any]], ET.Element]] = {"nbd": _nbd, "local": _local}
"""Kind of connection -> the disk element with its source."""


# Reading a domain's XML


def fitted(domain_xml: str) -> Fitted:
    devices = ET.fromstring(domain_xml).find("devices")
    if devices is None:
        return Fitted()
    found = [name for nic in devices.iterfind("interface") if (name := _port(nic))]
    serials = [disk.findtext("serial") for disk in devices.iterfind("disk")]
    held = [*devices.iterfind("hostdev"), *devices.iterfind("interface[@type='hostdev']")]
    addresses = [source for device in held if (source := device.find("source/address")) is not None]
    return Fitted(tuple(found), tuple(serial for serial in serials if serial), tuple(map(_name, addresses)))


def nic_in(domain_xml: str, port_id: str) -> ET.Element | None:
    """Return the NIC of a port in a domain's XML."""
    return next((nic for nic in ET.fromstring(domain_xml).iterfind("devices/interface") if _port(nic) == port_id), None)


def volume_in(domain_xml: str, volume_id: str) -> ET.Element | None:
    """Return a volume in a domain's XML."""
    disks = ET.fromstring(domain_xml).iterfind("devices/disk")
    return next((disk for disk in disks if disk.findtext("serial") == volume_id), None)


def _port(nic: ET.Element) -> str | None:
    alias = nic.find("alias")
    name = "" if alias is None else alias.get("name", "")
    return name.removeprefix(NIC_ALIAS) if name.startswith(NIC_ALIAS) else None


def _name(address: ET.Element) -> str:
    domain, bus, slot, function = (int(address.get(part, "0"), 16) for part in ("domain", "bus", "slot", "function"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
