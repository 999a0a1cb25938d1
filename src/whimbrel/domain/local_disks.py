"""The local disks of a guest: its root disk, and the ephemeral and swap disks of its flavor.

Invariants: root and ephemeral are copied wherever the server goes, swap is made anew. No volume is attached under a
device name kept for a local disk; if a volume already has that name, the disk takes a name from the end.
Source: Nova's disk.eph0 and disk.swap; its order in a guest: root, ephemeral, swap, then volumes.
"""

from collections.abc import Collection
from string import ascii_lowercase

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import DiskName, GuestSpec
from whimbrel.domain.guest_hardware import DiskBus, name_on

ROOT_DEVICE = "/dev/vda"
MIB, GIB = 1 << 20, 1 << 30


def names_of(spec: GuestSpec) -> tuple[DiskName, ...]:
    """Return the disks of a guest, in the guest's order."""
    return _names(spec.has_local_root, spec.ephemeral_gib, spec.swap_mib)


def _names(has_local_root: bool, ephemeral_gib: int, swap_mib: int) -> tuple[DiskName, ...]:
    has: dict[DiskName, bool] = {"root": has_local_root, "ephemeral": ephemeral_gib > 0, "swap": swap_mib > 0}
    return tuple(name for name, is_there in has.items() if is_there)


def size_bytes(spec: GuestSpec, name: DiskName) -> int:
    """Return the size of a disk; 0: as large as its content."""
    sizes = {"root": spec.root_gib * GIB, "ephemeral": spec.ephemeral_gib * GIB, "swap": spec.swap_mib * MIB}
    return sizes[name]


def gib_of(spec: GuestSpec) -> int:
    """Return the space that a guest's disks use on its host."""
    return sum(-(-size_bytes(spec, name) // GIB) for name in names_of(spec))


# Device names in the guest


def devices_of(spec: GuestSpec) -> dict[DiskName, str]:
    taken = {volume.device for volume in spec.volumes}
    devices: dict[DiskName, str] = {}
    for name, kept in _kept(names_of(spec)).items():
        devices[name] = kept if kept == ROOT_DEVICE or kept not in taken else _last_free(taken)
        taken.add(devices[name])
    return devices


def bus_of(spec: GuestSpec, name: DiskName) -> DiskBus:
    return spec.hardware.bus_of_root if name == "root" else spec.hardware.disk_bus


def targets_of(spec: GuestSpec) -> dict[DiskName, str]:
    """Return the names of the disks in the guest, such as vda or sda: those that a hypervisor is told."""
    return {name: name_on(bus_of(spec, name), device) for name, device in devices_of(spec).items()}


def kept_devices(has_local_root: bool, flavor: Flavor) -> set[str]:
    """Return the device names that volumes of such a server must not use."""
    return set(usual_devices(has_local_root, flavor).values())


def usual_devices(has_local_root: bool, flavor: Flavor) -> dict[DiskName, str]:
    """Return the device names of such a server's local disks, unless a volume has the name already."""
    return _kept(_names(has_local_root, flavor.ephemeral_gib, flavor.swap_mib))


def _kept(names: Collection[DiskName]) -> dict[DiskName, str]:
    others = iter(("/dev/vdb", "/dev/vdc"))
    return {name: ROOT_DEVICE if name == "root" else next(others) for name in names}


def _last_free(taken: Collection[str]) -> str:
    return next(name for letter in reversed(ascii_lowercase) if (name := f"/dev/vd{letter}") not in taken)
