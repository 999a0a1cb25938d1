"""A guest as libvirt XML: the domain's definition, and the state read from a domain.

Invariant: a domain's uuid is its server's, so libvirt itself prevents two running guests of one server on a host; the
domain's slot is recorded only in its metadata.
Source: https://libvirt.org/formatdomain.html
"""

import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whimbrel.adapters.libvirt import device_xml
from whimbrel.adapters.libvirt.connection import Libvirt
from whimbrel.adapters.libvirt.device_xml import Fitted, Plugging
from whimbrel.adapters.libvirt.slots import SlotDirectory
from whimbrel.domain import device_assignment, local_disks
from whimbrel.domain.guest import NAME_PREFIX, DiskName, Guest, GuestKey, GuestSpec, instance_name
from whimbrel.domain.ids import ServerId, Slot

NAMESPACE = "urn:whimbrel:guest:1"
MACHINE = "pc"  # i440fx: boots everything, and its power button needs no driver
DISK = local_disks.ROOT_DEVICE.removeprefix("/dev/")

ET.register_namespace("whimbrel", NAMESPACE)


@dataclass(frozen=True)
class Domain:
    """The state of a server's domain in libvirt. slot and home are None if it lacks Whimbrel's metadata."""

    server: ServerId
    slot: Slot | None
    home: str | None  # the slot's directory
    runs: bool
    vcpus: int
    memory_mib: int
    fitted: Fitted = field(default_factory=Fitted)  # devices, if it runs

    def is_of(self, key: GuestKey) -> bool:
        return (self.server, self.slot) == (key.server, key.slot)

    def as_guest(self) -> Guest:
        """Return a guest whose directory is gone, as far as it is known."""
        assert self.slot, "a foreign domain is no guest of ours"
        return Guest(
            key=GuestKey(self.server, self.slot),
            power="running" if self.runs else "stopped",
            vcpus=self.vcpus,
            memory_mib=self.memory_mib,
            root_gib=0,
            has_disk=False,
            ports=self.fitted.ports,
            volumes=self.fitted.volumes,
            pci=self.fitted.pci,
        )


def domain_xml(spec: GuestSpec, slot: SlotDirectory, virt_type: str, plugging: Plugging | None) -> str:
    """Return the definition of a slot's guest. Raises: Refused: this host does not support one of its devices."""
    root = ET.Element("domain", type=virt_type)
    _text(root, "name", instance_name(spec.key.server))
    _text(root, "uuid", spec.key.server)
    _text(root, "title", "".join(filter(str.isprintable, spec.name)))
    ET.SubElement(
        ET.SubElement(root, "metadata"),
        f"{{{NAMESPACE}}}guest",
        {"slot": spec.key.slot, "home": str(slot.path), "project": spec.project_id},
    )
    _text(root, "memory", str(spec.memory_mib), unit="MiB")
    _text(root, "vcpu", str(spec.vcpus))
    _text(ET.SubElement(root, "os"), "type", "hvm", machine=MACHINE)
    features = ET.SubElement(root, "features")
    ET.SubElement(features, "acpi")
    ET.SubElement(features, "apic")
    if virt_type == "kvm":
        ET.SubElement(root, "cpu", mode="host-model")
    for event, action in (("on_poweroff", "destroy"), ("on_reboot", "restart"), ("on_crash", "destroy")):
        _text(root, event, action)
    root.append(_devices(spec, slot, plugging))
    return ET.tostring(root, encoding="unicode")


def _devices(spec: GuestSpec, slot: SlotDirectory, plugging: Plugging | None) -> ET.Element:
    root = ET.Element("devices")
    root.extend(_disk(name, slot.disk_file(name), device) for name, device in local_disks.devices_of(spec).items())
    root.extend(device_xml.volume_xml(volume) for volume in spec.volumes)
    root.extend(device_xml.nic_xml(nic, plugging) for nic in spec.nics)
    root.extend(device_xml.pci_xml(address) for address in spec.pci)
    serial = ET.SubElement(root, "serial", type="file")
    ET.SubElement(serial, "source", path=str(slot.console), append="on")
    ET.SubElement(serial, "target", port="0")
    ET.SubElement(root, "controller", type="usb", model="none")
    ET.SubElement(root, "memballoon", model="none")
    _text(ET.SubElement(root, "rng", model="virtio"), "backend", "/dev/urandom", model="random")
    return root


def _disk(name: DiskName, file: Path, device: str) -> ET.Element:
    disk = ET.Element("disk", type="file", device="disk")
    ET.SubElement(disk, "driver", name="qemu", type="qcow2", cache=_cache(file), discard="unmap")
    ET.SubElement(disk, "source", file=str(file))
    ET.SubElement(disk, "target", dev=device.removeprefix("/dev/"), bus="virtio")
    if name == "root":
        ET.SubElement(disk, "boot", order="1")
    return disk


def _cache(disk: Path) -> str:
    """Return QEMU's cache mode: none where supported, so that what a guest wrote is on the disk."""
    try:
        os.close(os.open(disk, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return "writeback"
    return "none"


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = text


def find_domain(libvirt: Libvirt, connection: Libvirt, server: ServerId) -> Libvirt | None:
    """Return libvirt's domain of a server, for operations."""
    try:
        return connection.lookupByUUIDString(server)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def observe(libvirt: Libvirt, domain: Libvirt) -> Domain | None:
    """Read a domain's state; None: it is gone. Reads the live XML of a running domain, not the configured one."""
    try:
        runs = bool(domain.isActive())
        _, max_memory_kib, _, vcpus, _ = domain.info()
        mark = _mark(libvirt, domain)
        fitted = device_xml.fitted(domain.XMLDesc(0)) if runs else Fitted()
        server = ServerId(domain.UUIDString())
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
    slot = mark.get("slot")
    return Domain(server, Slot(slot) if slot else None, mark.get("home"), runs, vcpus, max_memory_kib // 1024, fitted)


def observe_all(libvirt: Libvirt, connection: Libvirt) -> dict[ServerId, Domain]:
    """Read the state of every domain with Whimbrel's name prefix."""
    named = (domain for domain in connection.listAllDomains() if domain.name().startswith(NAME_PREFIX))
    seen = (observe(libvirt, domain) for domain in named)
    return {domain.server: domain for domain in seen if domain}


def _mark(libvirt: Libvirt, domain: Libvirt) -> dict[str, Any]:
    try:
        text = domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_CURRENT)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
            return {}
        raise
    return dict(ET.fromstring(text).attrib)


def guest_of(slot: SlotDirectory, domain: Domain | None) -> Guest | None:
    """Return a slot's guest; None: there is none. domain: the last observed state of its server's domain."""
    spec = slot.read_spec()
    if spec is None:
        return None
    is_defined = slot.definition.exists()
    running = domain if domain and domain.runs and domain.is_of(slot.key) else None
    wanted, here = local_disks.names_of(spec), slot.whole_disks(spec)
    has = running.fitted if running else _planned(spec) if is_defined else Fitted()
    return Guest(
        key=slot.key,
        power="running" if running else "stopped" if is_defined else "reserved",
        vcpus=spec.vcpus,
        memory_mib=spec.memory_mib,
        root_gib=spec.root_gib,
        has_disk=here == wanted if wanted else is_defined,
        disks=here,
        ports=has.ports,
        volumes=has.volumes,
        pci=has.pci,
    )


def _planned(spec: GuestSpec) -> Fitted:
    ports, volumes = (nic.port_id for nic in spec.nics), (volume.volume_id for volume in spec.volumes)
    return Fitted(tuple(ports), tuple(volumes), device_assignment.pci_of(spec))
