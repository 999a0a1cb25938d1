"""A guest of a simulated host as a value: what it is, what it has, what a boot makes of it."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from whimbrel.domain import fitting
from whimbrel.domain.errors import NotFound
from whimbrel.domain.guest import Guest, GuestKey, GuestSpec
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.sim.disks import Disk


class SimulatedGuest(msgspec.Struct, frozen=True, kw_only=True):
    """All that a host keeps of a guest, one value in the keep."""

    spec: GuestSpec
    power: Literal["reserved", "running", "stopped"] = "reserved"
    disk: Disk | None = None
    offered: bool = False
    console: tuple[str, ...] = ()

    @property
    def key(self) -> GuestKey:
        return self.spec.key

    @property
    def disk_gib(self) -> int:
        """Give what it takes of the host's disk."""
        return self.spec.root_gib if self.spec.has_local_root else 0

    def observed(self) -> Guest:
        spec, is_defined = self.spec, self.power != "reserved"
        has_root = self.disk is not None and self.disk.whole
        return Guest(
            key=spec.key,
            power=self.power,
            vcpus=spec.vcpus,
            memory_mib=spec.memory_mib,
            root_gib=spec.root_gib,
            has_disk=has_root if spec.has_local_root else is_defined,
            ports=tuple(nic.port_id for nic in spec.nics) if is_defined else (),
            volumes=tuple(volume.volume_id for volume in spec.volumes) if is_defined else (),
            pci=fitting.pci_of(spec) if is_defined else (),
        )


def path_of(key: GuestKey) -> str:
    return f"{key.server}/{key.slot}"


def key_at(path: str) -> GuestKey:
    server, _, slot = path.partition("/")
    return GuestKey(ServerId(server), Slot(slot))


def booted(guest: SimulatedGuest, host: HostName) -> tuple[Disk | None, str]:
    """Give the root disk as a boot leaves it, and what the guest says on its console."""
    if not guest.spec.has_local_root:
        volume = fitting.boot_volume(guest.spec)
        assert volume, "checked before"
        return None, f"{guest.spec.name}: boot from volume {volume.volume_id}, now on {host}"
    disk = whole_disk(guest)
    contents = disk.contents.booted(f"{guest.key.server} on {host}")
    line = (
        f"{guest.spec.name}: boot {contents.boots}, now on {host}; disk of {disk.size_bytes} bytes"
        f" made of {contents.origin}, first booted as {contents.marker}"
    )
    return replace(disk, contents=contents), line


def whole_disk(guest: SimulatedGuest) -> Disk:
    if guest.disk is None or not guest.disk.whole:
        raise NotFound(f"guest {path_of(guest.key)} has no whole disk")
    return guest.disk
