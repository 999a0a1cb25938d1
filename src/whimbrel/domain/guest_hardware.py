"""The virtual hardware of a guest, as its image and its flavor ask for it.

Invariant: the default value is the hardware of every guest that asks for nothing, those of older releases included,
and older agents know no other.
"""

from typing import Literal

import msgspec

DiskBus = Literal["virtio", "scsi", "sata", "ide", "usb", "fdc", "xen", "lxc", "uml"]
"""The buses that Nova knows. QEMU has the first five."""

DeviceType = Literal["disk", "cdrom"]
InputBus = Literal["usb", "virtio"]
Firmware = Literal["bios", "uefi"]

PREFIXES: dict[str, str] = {"virtio": "vd", "ide": "hd", "scsi": "sd", "sata": "sd", "usb": "sd"}
"""Bus -> how the names of its disks begin in the guest."""


TRAITS = (
    *(f"COMPUTE_STORAGE_BUS_{bus}" for bus in ("IDE", "SATA", "SCSI", "USB", "VIRTIO")),
    *(f"COMPUTE_NET_VIF_MODEL_{model}" for model in ("E1000", "E1000E", "NE2K_PCI", "PCNET", "RTL8139", "VIRTIO")),
    *(f"COMPUTE_GRAPHICS_MODEL_{model}" for model in ("BOCHS", "CIRRUS", "NONE", "QXL", "VGA", "VIRTIO")),
    "COMPUTE_FIRMWARE_UEFI",
)
"""The traits of a host whose QEMU has all that a PC can have."""


class CpuTopology(msgspec.Struct, frozen=True):
    sockets: int
    cores: int  # of a socket
    threads: int  # of a core


class Hardware(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """None, "" and 0: as the hypervisor has it by default."""

    machine: str = ""  # such as "q35" or "pc-q35-7.2"
    firmware: Firmware = "bios"
    disk_bus: DiskBus = "virtio"
    root_bus: DiskBus | None = None  # of the local root disk; None: disk_bus
    scsi_model: str = ""
    cdrom_bus: DiskBus | None = None
    vif_model: str = "virtio"
    video_model: str = ""
    video_ram_mib: int = 0
    rng: bool = True
    rng_rate_bytes: int = 0  # in each period; 0: unlimited
    rng_period_ms: int = 0
    watchdog: str = ""  # what it does when it expires; "": there is none
    serial_ports: int = 1
    tablet: InputBus | None = None  # a pointer with absolute coordinates; None: there is none
    keyboard: InputBus | None = None  # besides that of the machine
    boot_menu: bool = False
    hpet: bool | None = None
    topology: CpuTopology | None = None
    is_windows: bool = False

    @property
    def is_q35(self) -> bool:
        return "q35" in self.machine

    @property
    def bus_of_root(self) -> DiskBus:
        return self.root_bus or self.disk_bus

    @property
    def bus_of_cdroms(self) -> DiskBus:
        return self.cdrom_bus or ("sata" if self.is_q35 else "ide")


NO_REQUESTS = Hardware()


def name_on(bus: str, device: str) -> str:
    """Return the name that a disk has in the guest: /dev/vdb is sdb on a SCSI bus, because its letters stay."""
    return PREFIXES.get(bus, "vd") + device.removeprefix("/dev/vd")
