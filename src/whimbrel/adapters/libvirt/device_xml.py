"""A guest's NICs and PCI devices as libvirt XML, and which devices a domain's XML contains.

Invariant: a NIC is identified by its alias, which contains the port's id; a volume by its serial, which is its id.
Source: https://libvirt.org/formatdomain.html
"""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Literal, NamedTuple

from whimbrel.domain.errors import Refused
from whimbrel.domain.guest_hardware import NO_REQUESTS
from whimbrel.domain.server_devices import GuestNic, tap_name

Plugging = Literal["tap", "ovs", "bridge", "user"]
"""tap: libvirt creates a tap device per NIC, named as Neutron's agents expect; requires root's libvirtd.
ovs: as tap; libvirt adds it to the bridge of Open vSwitch that the port's binding names, if that is of this type.
bridge: the tap device is made by our data plane, and is there before the guest; see adapters.host_network.
user: QEMU's user-mode network, outbound only; requires no privileges.
"""

TAPPED = ("ovs", "bridge", "tap", "distributed", "midonet")

INTEGRATION_BRIDGE = "br-int"
"""The bridge of Open vSwitch if the port's binding names none."""

NIC_ALIAS = "ua-nic-"


class Fitted(NamedTuple):
    """The devices that a domain has now."""

    ports: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # of its volumes, by name


# NICs


def nic_xml(nic: GuestNic, plugging: Plugging | None, model: str = NO_REQUESTS.vif_model) -> ET.Element:
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
        interface = ET.Element("interface", type="user") if plugging == "user" else _tap(nic, plugging)
        ET.SubElement(interface, "model", type=model)
    ET.SubElement(interface, "mac", address=nic.mac)
    ET.SubElement(interface, "alias", name=NIC_ALIAS + nic.port_id)
    return interface


def _tap(nic: GuestNic, plugging: Plugging) -> ET.Element:
    if plugging == "ovs" and nic.vif_type == "ovs":
        interface = _on_open_vswitch(nic)
    else:
        interface = ET.Element("interface", type="ethernet")
    target = ET.SubElement(interface, "target", dev=tap_name(nic.port_id))
    if plugging == "bridge":
        target.set("managed", "no")
    if nic.mtu:
        ET.SubElement(interface, "mtu", size=str(nic.mtu))
    return interface


def _on_open_vswitch(nic: GuestNic) -> ET.Element:
    """Return a NIC that libvirt adds to a bridge, with the port's id in `external_ids`, where Neutron's agent reads it.

    Raises: Refused: the binding asks for a Linux bridge before the port, for filtering by iptables.
    """
    if nic.vif_details.get("ovs_hybrid_plug"):
        raise Refused(
            f"port {nic.port_id} is bound with ovs_hybrid_plug, which this host does not support: let Neutron's agent"
            " filter by Open vSwitch ([securitygroup] firewall_driver = openvswitch)"
        )
    interface = ET.Element("interface", type="bridge")
    ET.SubElement(interface, "source", bridge=nic.vif_details.get("bridge_name") or INTEGRATION_BRIDGE)
    port = ET.SubElement(interface, "virtualport", type="openvswitch")
    ET.SubElement(port, "parameters", interfaceid=nic.port_id)
    return interface


def _virtual_function(nic: GuestNic, address: str) -> ET.Element:
    interface = ET.Element("interface", type="hostdev", managed="yes")
    ET.SubElement(interface, "source").append(address_of(address))
    if vlan := nic.vif_details.get("vlan"):
        ET.SubElement(ET.SubElement(interface, "vlan"), "tag", id=str(vlan))
    return interface


# PCI devices


def pci_xml(address: str) -> ET.Element:
    device = ET.Element("hostdev", mode="subsystem", type="pci", managed="yes")
    ET.SubElement(device, "source").append(address_of(address))
    return device


def address_of(address: str) -> ET.Element:
    """Return libvirt's element for `0000:81:00.1`."""
    domain, bus, rest = address.split(":")
    slot, _, function = rest.partition(".")
    numbers = {"domain": domain, "bus": bus, "slot": slot, "function": function}
    return ET.Element("address", {name: f"0x{number}" for name, number in numbers.items()}, type="pci")


# Reading a domain's XML


def fitted(domain_xml: str) -> Fitted:
    devices = ET.fromstring(domain_xml).find("devices")
    if devices is None:
        return Fitted()
    found = [name for nic in devices.iterfind("interface") if (name := port_of(nic))]
    volumes = {serial: disk for disk in devices.iterfind("disk") if (serial := disk.findtext("serial"))}
    sources = [source for disk in volumes.values() if (source := disk.find("source")) is not None]
    files = [Path(file).name for source in sources if (file := source.get("file"))]
    held = [*devices.iterfind("hostdev"), *devices.iterfind("interface[@type='hostdev']")]
    addresses = [source for device in held if (source := device.find("source/address")) is not None]
    return Fitted(tuple(found), tuple(volumes), tuple(map(name_of, addresses)), tuple(files))


def paths(domain_xml: str) -> frozenset[str]:
    """Return the files and devices of a domain's disks, and of those to which they are copied."""
    disks = ET.fromstring(domain_xml).iterfind("devices/disk")
    sources = [source for disk in disks for where in ("source", "mirror/source") for source in disk.iterfind(where)]
    return frozenset(path for source in sources if (path := source.get("file") or source.get("dev")))


def nic_in(domain_xml: str, port_id: str) -> ET.Element | None:
    """Return the NIC of a port in a domain's XML."""
    return next(
        (nic for nic in ET.fromstring(domain_xml).iterfind("devices/interface") if port_of(nic) == port_id), None
    )


def volume_in(domain_xml: str, volume_id: str) -> ET.Element | None:
    """Return a volume in a domain's XML."""
    disks = ET.fromstring(domain_xml).iterfind("devices/disk")
    return next((disk for disk in disks if disk.findtext("serial") == volume_id), None)


def target_of(disk: ET.Element) -> str:
    """Return the name of a disk in the guest, by which libvirt knows it in orders."""
    target = disk.find("target")
    assert target is not None, "each disk has a target"
    return target.get("dev", "")


def port_of(nic: ET.Element) -> str | None:
    """Return the port of a NIC; None: it is none of a port."""
    alias = nic.find("alias")
    name = "" if alias is None else alias.get("name", "")
    return name.removeprefix(NIC_ALIAS) if name.startswith(NIC_ALIAS) else None


def name_of(address: ET.Element) -> str:
    """Return the address that an element of libvirt says, such as `0000:81:00.1`."""
    domain, bus, slot, function = (int(address.get(part, "0"), 16) for part in ("domain", "bus", "slot", "function"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
