"""A guest as libvirt XML: the domain's definition, and the state read from a domain.

Invariant: a domain's uuid is its server's, so libvirt itself prevents two running guests of one server on a host; the
domain's slot is recorded only in its metadata.
Source: https://libvirt.org/formatdomain.html
"""

import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whimbrel.adapters.libvirt import device_xml, hardware_xml
from whimbrel.adapters.libvirt.connection import Libvirt
from whimbrel.adapters.libvirt.consoles import console_xml
from whimbrel.adapters.libvirt.device_xml import Fitted, Plugging
from whimbrel.adapters.libvirt.rescue_xml import boot_from_rescue_disk
from whimbrel.adapters.libvirt.slots import SlotDirectory
from whimbrel.adapters.libvirt.volume_xml import files_of, volume_xml
from whimbrel.domain import device_assignment, local_disks
from whimbrel.domain.guest import LIVE, NAME_PREFIX, DiskName, Guest, GuestKey, GuestSpec, Power, instance_name
from whimbrel.domain.guest_hardware import Hardware
from whimbrel.domain.ids import ServerId, Slot

NAMESPACE = "urn:whimbrel:guest:1"
AGENT_CHANNEL = "org.qemu.guest_agent.0"

ET.register_namespace("whimbrel", NAMESPACE)


NO_PATHS: Mapping[str, str] = {}

ASLEEP = "asleep"
"""Attribute of the mark of a guest that comes by a live transfer; its value is what it shall be: running or paused."""

TRANSIENT = ("MIGRATION", "SAVE", "DUMP", "FROM_SNAPSHOT", "SHUTTING_DOWN", "SNAPSHOT", "STARTING_UP")
"""libvirt's reasons for a pause that it ends by itself."""

POST_COPY = ("POSTCOPY", "POSTCOPY_FAILED")
"""libvirt's reasons for the pause of a guest that runs elsewhere, and still needs its memory here."""


@dataclass(frozen=True)
class Domain:
    """The state of a server's domain in libvirt. slot and home are None if it lacks Whimbrel's metadata."""

    server: ServerId
    slot: Slot | None
    home: str | None  # the slot's directory
    power: Power  # "incoming": it is here by a live transfer, and its source has not released it yet
    vcpus: int
    memory_mib: int
    fitted: Fitted = field(default_factory=Fitted)  # devices, if it is active
    paths: frozenset[str] = frozenset()  # files and devices of its disks, if it is active
    runs_elsewhere: bool = False  # it is the source of a live transfer in post-copy
    is_halted: bool = False  # its processors stand still, for whatever reason

    def is_of(self, key: GuestKey) -> bool:
        return (self.server, self.slot) == (key.server, key.slot)

    @property
    def is_active(self) -> bool:
        """Check whether there is a process of it."""
        return self.power != "stopped"

    @property
    def runs(self) -> bool:
        """Check whether it has its memory here: it runs or is paused."""
        return self.power in LIVE

    def as_guest(self) -> Guest:
        """Return a guest whose directory is gone, as far as it is known."""
        assert self.slot, "a foreign domain is no guest of ours"
        return Guest(
            key=GuestKey(self.server, self.slot),
            power=self.power,
            vcpus=self.vcpus,
            memory_mib=self.memory_mib,
            root_gib=0,
            has_disk=False,
            ports=self.fitted.ports,
            volumes=self.fitted.volumes,
            pci=self.fitted.pci,
            files=self.fitted.files,
        )


def domain_xml(
    spec: GuestSpec, slot: SlotDirectory, virt_type: str, plugging: Plugging | None, paths: Mapping[str, str] = NO_PATHS
) -> str:
    """Return the definition of a slot's guest. paths: of the volumes that this host has connected.

    Raises: Refused: this host does not support one of its devices.
    """
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
    root.append(hardware_xml.os_xml(spec.hardware, slot.nvram))
    features = ET.SubElement(root, "features")
    ET.SubElement(features, "acpi")
    ET.SubElement(features, "apic")
    features.extend(hardware_xml.feature_xml(spec.hardware, virt_type))
    root.extend(_cpu(spec.hardware, virt_type))
    if (clock := hardware_xml.clock_xml(spec.hardware)) is not None:
        root.append(clock)
    for event, action in (("on_poweroff", "destroy"), ("on_reboot", "restart"), ("on_crash", "destroy")):
        _text(root, event, action)
    root.append(_devices(spec, slot, plugging, paths))
    return ET.tostring(root, encoding="unicode")


def _devices(spec: GuestSpec, slot: SlotDirectory, plugging: Plugging | None, paths: Mapping[str, str]) -> ET.Element:
    root, hardware = ET.Element("devices"), spec.hardware
    for name, target in local_disks.targets_of(spec).items():
        root.append(_disk(name, slot.disk_file(name), target, local_disks.bus_of(spec, name)))
    volumes = [volume_xml(volume, paths.get(volume.volume_id), hardware) for volume in spec.volumes]
    if spec.config_drive:
        taken = {device_xml.target_of(disk) for disk in (*root, *volumes)}
        root.append(_cdrom(slot.config_drive, hardware_xml.cdrom_target(hardware, taken)))
    root.extend(volumes)
    if (rescue := slot.read_rescue()) and rescue.is_used:
        boot_from_rescue_disk(root, rescue.disk, slot.rescue_disk)
    buses = {target.get("bus", "") for target in root.iterfind("disk/target")}
    root.extend(hardware_xml.controllers_xml(hardware, buses))
    root.extend(device_xml.nic_xml(nic, plugging, hardware.vif_model) for nic in spec.nics)
    root.extend(device_xml.pci_xml(address) for address in spec.pci)
    root.extend(console_xml(str(slot.console), hardware_xml.video_xml(hardware)))
    root.extend(hardware_xml.other_devices(hardware))
    if spec.guest_agent:
        channel = ET.SubElement(root, "channel", type="unix")
        ET.SubElement(channel, "target", type="virtio", name=AGENT_CHANNEL)
    ET.SubElement(root, "controller", type="usb", model=hardware_xml.usb_model(hardware, buses))
    ET.SubElement(root, "memballoon", model="none")
    if (rng := hardware_xml.rng_xml(hardware)) is not None:
        root.append(rng)
    return root


def _cpu(hardware: Hardware, virt_type: str) -> Iterator[ET.Element]:
    cpu = ET.Element("cpu", {"mode": "host-model"} if virt_type == "kvm" else {})
    if hardware.topology:
        cpu.append(hardware_xml.topology_xml(hardware.topology))
    if virt_type == "kvm" or hardware.topology:
        yield cpu


def _disk(name: DiskName, file: Path, target: str, bus: str) -> ET.Element:
    disk = ET.Element("disk", type="file", device="disk")
    ET.SubElement(disk, "driver", name="qemu", type="qcow2", cache=_cache(file), discard="unmap")
    ET.SubElement(disk, "source", file=str(file))
    ET.SubElement(disk, "target", dev=target, bus=bus)
    if name == "root":
        ET.SubElement(disk, "boot", order="1")
    return disk


def _cdrom(file: Path, target: dict[str, str]) -> ET.Element:
    disk = ET.Element("disk", type="file", device="cdrom")
    ET.SubElement(disk, "driver", name="qemu", type="raw")
    ET.SubElement(disk, "source", file=str(file))
    ET.SubElement(disk, "target", target)
    ET.SubElement(disk, "readonly")
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


def observe(libvirt: Libvirt, domain: Libvirt) -> Domain | None:
    """Read a domain's state; None: it is gone. Reads the live XML of a running domain, not the configured one."""
    try:
        _, max_memory_kib, _, vcpus, _ = domain.info()
        mark = read_mark(libvirt, domain)
        power = _power(libvirt, domain, mark)
        is_halted = domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED
        runs_elsewhere = is_paused_for(libvirt, domain, POST_COPY)
        live = domain.XMLDesc(0) if power != "stopped" else ""
        server = ServerId(domain.UUIDString())
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
    return Domain(
        server=server,
        slot=Slot(mark["slot"]) if mark.get("slot") else None,
        home=mark.get("home"),
        power=power,
        vcpus=vcpus,
        memory_mib=max_memory_kib // 1024,
        fitted=device_xml.fitted(live) if live else Fitted(),
        paths=device_xml.paths(live) if live else frozenset(),
        runs_elsewhere=runs_elsewhere,
        is_halted=is_halted,
    )


def _power(libvirt: Libvirt, domain: Libvirt, mark: Mapping[str, str]) -> Power:
    if not domain.isActive():
        return "stopped"
    if domain.state()[0] != libvirt.VIR_DOMAIN_PAUSED:
        return "running"
    if ASLEEP in mark:
        return "incoming"
    return "running" if is_paused_for(libvirt, domain, TRANSIENT) else "paused"


def is_paused_for(libvirt: Libvirt, domain: Libvirt, reasons: tuple[str, ...]) -> bool:
    """Check whether a domain is paused for one of these reasons, by libvirt's names."""
    state, reason = domain.state()
    named = (getattr(libvirt, f"VIR_DOMAIN_PAUSED_{name}", None) for name in reasons)
    return state == libvirt.VIR_DOMAIN_PAUSED and reason in named


def observe_all(libvirt: Libvirt, connection: Libvirt) -> dict[ServerId, Domain]:
    """Read the state of every domain with Whimbrel's name prefix."""
    named = (domain for domain in connection.listAllDomains() if domain.name().startswith(NAME_PREFIX))
    seen = (observe(libvirt, domain) for domain in named)
    return {domain.server: domain for domain in seen if domain}


def read_mark(libvirt: Libvirt, domain: Libvirt) -> dict[str, Any]:
    """Return the attributes of Whimbrel's metadata; of an active domain, those of its live definition."""
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
    own = domain if domain and domain.is_of(slot.key) else None
    power = power_of(slot, own)
    is_defined = power not in ("reserved", "incoming")
    rescue = slot.read_rescue()
    in_rescue = rescue is not None and rescue.is_used
    wanted, here = local_disks.names_of(spec), slot.whole_disks(spec) if power != "incoming" else ()
    # Volumes that a rescued guest does not see remain attached to it.
    has = own.fitted if own and own.is_active and not in_rescue else Fitted() if power == "reserved" else _planned(spec)
    return Guest(
        key=slot.key,
        power=power,
        vcpus=spec.vcpus,
        memory_mib=spec.memory_mib,
        root_gib=spec.root_gib,
        has_disk=here == wanted if wanted else is_defined,
        disks=here,
        ports=has.ports,
        volumes=has.volumes,
        pci=has.pci,
        rescue=rescue.disk if rescue else None,
        in_rescue=in_rescue,
        files=has.files,
    )


def power_of(slot: SlotDirectory, domain: Domain | None) -> Power:
    """Return the power state of a slot's guest. domain: the slot's, as last observed."""
    if slot.has_memory() and (domain is None or domain.is_halted or not domain.is_active):
        return "suspended"  # halted: it was restored, and has not run since
    if domain and domain.is_active:
        departure = slot.read_departure()
        if domain.runs_elsewhere or (departure and departure.has_left):
            return "stopped"
        return departure.power_before if departure and departure.is_open and domain.runs else domain.power
    if slot.incoming.exists():
        return "stopped" if domain else "incoming"  # libvirt has the definition of a guest that arrived
    return "stopped" if slot.definition.exists() else "reserved"


def _planned(spec: GuestSpec) -> Fitted:
    ports, volumes = (nic.port_id for nic in spec.nics), (volume.volume_id for volume in spec.volumes)
    return Fitted(tuple(ports), tuple(volumes), device_assignment.pci_of(spec), tuple(files_of(spec.volumes)))
