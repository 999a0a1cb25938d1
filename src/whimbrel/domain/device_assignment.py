"""Changes of a guest's nics, volumes and PCI devices, as pure functions on its spec.

Invariant: a port, a volume, a device name and a PCI address occur in a guest once.
"""

import re
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestSpec
from whimbrel.domain.local_disks import devices_of
from whimbrel.domain.server_devices import GuestNic, GuestVolume

DEVICE = re.compile(r"/dev/vd[a-z]{1,2}")
NOT_BOUND = ("unbound", "binding_failed")


def check(spec: GuestSpec) -> None:
    """Raises: Refused: a guest cannot have these devices, with the first reason."""
    for nic in spec.nics:
        if nic.vif_type in NOT_BOUND:
            raise Refused(f"port {nic.port_id} is not bound to this host: its type is {nic.vif_type}")
    for volume in spec.volumes:
        if not volume.connection:
            raise Refused(f"volume {volume.volume_id} has no connection to this host")
        if not DEVICE.fullmatch(volume.device):
            raise Refused(f"volume {volume.volume_id} cannot be {volume.device}: such names are /dev/vdb, /dev/vdc ...")
    _once("port", (nic.port_id for nic in spec.nics))
    _once("volume", (volume.volume_id for volume in spec.volumes))
    _once("device name", [*devices_of(spec).values(), *(volume.device for volume in spec.volumes)])
    _once("PCI device", pci_of(spec))


def _once(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Refused(f"the guest has the {what} {name} already")
        seen.add(name)


def pci_of(spec: GuestSpec) -> tuple[str, ...]:
    """Return the addresses of all PCI devices of a guest, those of its nics included."""
    return (*spec.pci, *(nic.pci_address for nic in spec.nics if nic.pci_address))


def boot_volume(spec: GuestSpec) -> GuestVolume | None:
    """Return the boot volume of a guest without a root disk."""
    return next((volume for volume in spec.volumes if volume.boot_index == 0), None)


def check_bootable(spec: GuestSpec) -> None:
    if not spec.has_local_root and boot_volume(spec) is None:
        raise Refused("the guest has no root disk and no volume with boot_index 0: there is nothing to boot from")


def check_not_booted_from(spec: GuestSpec, volume_id: str) -> None:
    """Raises: Refused: the running guest has booted from this volume."""
    boots_from = None if spec.has_local_root else boot_volume(spec)
    if boots_from and boots_from.volume_id == volume_id:
        raise Refused(f"the guest runs from volume {volume_id}")


def with_disks_of(spec: GuestSpec, reserved: GuestSpec) -> GuestSpec:
    """Return the spec with the sizes of the disks that were reserved: they are made once."""
    return replace(spec, ephemeral_gib=reserved.ephemeral_gib, swap_mib=reserved.swap_mib)


def with_nic(spec: GuestSpec, nic: GuestNic) -> GuestSpec:
    """Return the spec with this nic; a nic of the same port is replaced at its position. Raises: Refused."""
    nics = {each.port_id: each for each in spec.nics} | {nic.port_id: nic}
    changed = replace(spec, nics=tuple(nics.values()))
    check(changed)
    return changed


def without_nic(spec: GuestSpec, port_id: str) -> GuestSpec:
    return replace(spec, nics=tuple(nic for nic in spec.nics if nic.port_id != port_id))


def with_volume(spec: GuestSpec, volume: GuestVolume) -> GuestSpec:
    """Return the spec with this volume; the same volume is replaced at its position. Raises: Refused."""
    if volume.device in devices_of(spec).values():
        raise Refused(f"the guest has the device name {volume.device} already")
    volumes = {each.volume_id: each for each in spec.volumes} | {volume.volume_id: volume}
    changed = replace(spec, volumes=tuple(volumes.values()))
    check(changed)
    return changed


def volume_of(spec: GuestSpec, volume_id: str) -> GuestVolume:
    """Return a volume of a guest. Raises: Refused: it has no such volume."""
    for volume in spec.volumes:
        if volume.volume_id == volume_id:
            return volume
    raise Refused(f"the guest has no volume {volume_id}")


def without_volume(spec: GuestSpec, volume_id: str) -> GuestSpec:
    return replace(spec, volumes=tuple(volume for volume in spec.volumes if volume.volume_id != volume_id))


def with_swapped(spec: GuestSpec, volume_id: str, new: GuestVolume) -> GuestSpec:
    """Return the spec with a volume reached as `new` is; it keeps its id, name and position. Raises: Refused."""
    if all(volume.volume_id != volume_id for volume in spec.volumes):
        raise Refused(f"the guest has no volume {volume_id}")
    changed = replace(
        spec,
        volumes=tuple(
            replace(each, attachment_id=new.attachment_id, connection=new.connection, read_only=new.read_only)
            if each.volume_id == volume_id
            else each
            for each in spec.volumes
        ),
    )
    check(changed)
    return changed


def with_snapshot_file(spec: GuestSpec, volume_id: str, file: str) -> GuestSpec:
    """Return the spec with a volume whose active file is that of its newest snapshot, in the same share.

    It is what the volume service says of the connection when it has made the snapshot. Raises: Refused.
    """
    if all(volume.volume_id != volume_id for volume in spec.volumes):
        raise Refused(f"the guest has no volume {volume_id}")
    return replace(
        spec,
        volumes=tuple(
            replace(each, connection=connected_to(each.connection, file)) if each.volume_id == volume_id else each
            for each in spec.volumes
        ),
    )


def connected_to(connection: dict[str, Any], file: str) -> dict[str, Any]:
    return {**connection, "data": {**connection.get("data", {}), "name": file, "format": "qcow2"}}


def uses(spec: GuestSpec, volume_id: str, attachment_id: str) -> bool:
    """Check whether the guest reaches a volume by this attachment."""
    return any((each.volume_id, each.attachment_id) == (volume_id, attachment_id) for each in spec.volumes)
