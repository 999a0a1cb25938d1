"""The names of a server's disks in its guest, where a disk on a SCSI bus is sda and not vda.

Records name disks by their letters only, as vda, vdb ...
"""

from whimbrel.domain.guest import DiskName
from whimbrel.domain.guest_hardware import NO_REQUESTS, Hardware, name_on
from whimbrel.domain.local_disks import ROOT_DEVICE, usual_devices
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice
from whimbrel.scheduling.requirements.requested_hardware import hardware_of


def of_volume(server: Server, device: BlockDevice) -> str:
    """Return a volume's name, "/dev/sdb"; "": it has none yet."""
    hardware = _hardware(server)
    default = hardware.bus_of_cdroms if device.device_type == "cdrom" else hardware.disk_bus
    return f"/dev/{name_on(device.bus or default, device.device)}" if device.device else ""


def of_root(server: Server) -> str:
    for device in server.volumes:
        if device.boot_index == 0:
            return of_volume(server, device)
    return f"/dev/{name_on(_hardware(server).bus_of_root, ROOT_DEVICE)}"


def of_local(server: Server) -> dict[DiskName, str]:
    """Return the names of its local disks, unless a volume has the name already."""
    hardware, devices = _hardware(server), usual_devices(server.has_local_root, server.flavor)
    buses = {name: hardware.bus_of_root if name == "root" else hardware.disk_bus for name in devices}
    return {name: f"/dev/{name_on(buses[name], device)}" for name, device in devices.items()}


def _hardware(server: Server) -> Hardware:
    if not server.heeds_hardware:
        return NO_REQUESTS
    return hardware_of(server.flavor, server.image_properties, server.root_bus)
