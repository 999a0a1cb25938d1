"""A volume as libvirt XML, by the kind of its connection.

Invariant: what a host has to connect first has a path only while it is connected; a definition without the path names
one that does not exist, so that nothing else can be started in its place.
Source: https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms
"""

import stat
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from whimbrel.domain.errors import Refused
from whimbrel.domain.guest_hardware import NO_REQUESTS, Hardware, name_on
from whimbrel.domain.server_devices import GuestVolume

RECONNECT_S = 60
"""How long a guest waits for a volume's unreachable server before its I/O fails. Older versions of libvirt ignore this:
then I/O fails immediately.
"""

NOT_CONNECTED = "/dev/disk/by-whimbrel"
CONNECTED_AS = {"nfs": "file", "iscsi": "block", "iser": "block", "fibre_channel": "block", "nvmeof": "block"}
"""Kind of a connection that the host makes -> what it is then."""

FORMATS = ("raw", "qcow2")


def files_of(volumes: Iterable[GuestVolume]) -> list[str]:
    """Return the names of the files of a share to which a guest with these volumes writes."""
    shared = [volume.connection for volume in volumes if _is_file(volume)]
    return [str(connection["data"]["name"]) for connection in shared if "name" in connection.get("data", {})]


def _is_file(volume: GuestVolume) -> bool:
    return CONNECTED_AS.get(str(volume.connection.get("driver_volume_type"))) == "file"


def volume_xml(volume: GuestVolume, path: str | None = None, hardware: Hardware = NO_REQUESTS) -> ET.Element:
    """Return the XML of a volume. path: where the host has connected it; None: not, or not by the host.

    Raises: Refused: no host reaches it, or it is encrypted.
    """
    kind, data = str(volume.connection.get("driver_volume_type")), volume.connection.get("data", {})
    if data.get("encrypted"):
        raise Refused(f"volume {volume.volume_id} is encrypted, which guests on this host cannot read")
    try:
        if kind in CONNECTED_AS:
            disk = _connected(CONNECTED_AS[kind], path or f"{NOT_CONNECTED}/{volume.volume_id}")
        elif source := SOURCES.get(kind):
            disk = source(data)
        else:
            known = ", ".join((*SOURCES, *CONNECTED_AS))
            raise Refused(f"volume {volume.volume_id} is reached by {kind!r}: this host knows {known}")
    except KeyError as missing:
        raise Refused(f"volume {volume.volume_id} has no {missing} in its connection") from missing
    disk_format = data.get("format") or "raw"
    if disk_format not in FORMATS:
        raise Refused(f"volume {volume.volume_id} has the format {disk_format!r}: known are {', '.join(FORMATS)}")
    is_cdrom = volume.device_type == "cdrom"
    bus = volume.bus or (hardware.bus_of_cdroms if is_cdrom else hardware.disk_bus)
    disk.set("device", volume.device_type)
    driver = ET.Element("driver", name="qemu", type=disk_format, cache="none")
    if not is_cdrom:
        driver.set("discard", "unmap")
    disk.insert(0, driver)
    ET.SubElement(disk, "target", dev=name_on(bus, volume.device), bus=bus)
    ET.SubElement(disk, "serial").text = volume.volume_id
    if is_cdrom or volume.read_only or data.get("access_mode") == "ro":
        ET.SubElement(disk, "readonly")
    if volume.boot_index is not None and volume.boot_index >= 0:
        ET.SubElement(disk, "boot", order=str(volume.boot_index + 1))
    return disk


def _connected(kind: str, path: str) -> ET.Element:
    disk = ET.Element("disk", type=kind, device="disk")
    ET.SubElement(disk, "source", {"dev" if kind == "block" else "file": path})
    return disk


def _nbd(data: dict[str, Any]) -> ET.Element:
    disk = ET.Element("disk", type="network", device="disk")
    source = ET.SubElement(disk, "source", protocol="nbd", name=str(data["export"]))
    ET.SubElement(source, "host", name=str(data["server"]), port=str(data["port"]))
    ET.SubElement(source, "reconnect", delay=str(RECONNECT_S))
    return disk


def _rbd(data: dict[str, Any]) -> ET.Element:
    """QEMU is Ceph's client; libvirt has the key as a secret, which the operator defined on each host."""
    disk = ET.Element("disk", type="network", device="disk")
    source = ET.SubElement(disk, "source", protocol="rbd", name=str(data["name"]))
    for name, port in zip(data.get("hosts", ()), data.get("ports", ()), strict=True):
        ET.SubElement(source, "host", name=str(name).strip("[]"), port=str(port))
    if data.get("auth_enabled"):
        auth = ET.SubElement(source, "auth", username=str(data["auth_username"]))
        ET.SubElement(auth, "secret", type="ceph", uuid=str(data["secret_uuid"]))
    return disk


def _local(data: dict[str, Any]) -> ET.Element:
    path = Path(data["device_path"])
    is_block = path.exists() and stat.S_ISBLK(path.stat().st_mode)
    return _connected("block" if is_block else "file", str(path))


SOURCES: dict[str, Callable[[dict[str, Any]], ET.Element]] = {"nbd": _nbd, "rbd": _rbd, "local": _local}
"""Kind of connection that QEMU makes -> the disk element with its source."""
