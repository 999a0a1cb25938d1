"""The hypervisor of an agent: small phases, each repeatable, keyed by server and slot.

An adapter keeps no state in memory that matters: after a crash of its process the same calls continue.
Raises, in all methods: Unavailable: no answer. Refused. NotFound: a required guest or disk is missing.
`domain.device_assignment` limits the devices of a guest, for all adapters alike.

A guest without a root disk (has_local_root False) is reserved, defined and started like others. The set of a guest's
disks is fixed when it is reserved.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from whimbrel.domain.guest import Capacity, DiskExport, DiskName, Guest, GuestKey, GuestSpec
from whimbrel.domain.server_devices import GuestNic, GuestVolume

Percent = Callable[[int], None]
"""Called by a long phase from time to time with 0 to 100."""


class Hypervisor(Protocol):
    async def capacity(self) -> Capacity: ...

    async def metrics(self) -> dict[str, float]:
        """Return the load of the host by Nova's names: "cpu.percent" from 0 to 1, "cpu.user.time" in nanoseconds ...

        Shares are those since the previous call; the first call may return none.
        """
        ...

    async def connector(self) -> dict[str, Any]:
        """Return the host's connector for a volume service: "host", "ip", "platform", "os_type", "multipath" ..."""
        ...

    async def guests(self) -> list[Guest]:
        """Return all of Whimbrel's guests, running or not, with their slots, as read now."""
        ...

    async def look(self, key: GuestKey) -> Guest | None:
        """Return the current state of one guest; None: nothing of it exists."""
        ...

    async def reserve(self, spec: GuestSpec) -> None:
        """Reserve name and room for a guest. Raises: Refused: no room on this host."""
        ...

    async def create_disk(self, spec: GuestSpec, percent: Percent) -> None:
        """Make its disks: the root disk from the image (empty without one), grown to root_gib; the others blank.

        An ephemeral disk has an empty ext4 file system, a swap disk is formatted as swap space.
        A partial disk is remade, a complete one stays. Cancelling the call ends it and leaves at most a partial disk.
        """
        ...

    async def import_disk(self, spec: GuestSpec, export: DiskExport, percent: Percent, disk: DiskName = "root") -> None:
        """Make a disk a copy of an exported one, grown to its size. Partial and complete disks, cancelling: as above.

        Raises: Unavailable: the export is missing or ended early. Refused: the copy would not fit.
        """
        ...

    async def fetch_disk(self, spec: GuestSpec, image_id: str, percent: Percent, disk: DiskName = "root") -> None:
        """Make a disk from a transfer image, grown to its size. Otherwise as import_disk."""
        ...

    async def export_disk(self, key: GuestKey, disk: DiskName = "root") -> DiskExport:
        """Export a disk of a stopped guest for reading until `unexport_disk`. Repeatable. Raises: Refused: it runs."""
        ...

    async def unexport_disk(self, key: GuestKey) -> None:
        """End the exports of its disks. Idempotent."""
        ...

    async def discard_disk(self, key: GuestKey) -> None:
        """Remove all disks of a guest that is not running. Idempotent."""
        ...

    async def define(self, spec: GuestSpec) -> None:
        """Define the guest, stopped, with its disks and exactly these nics, volumes and PCI devices.

        If it is defined already, a stopped guest is changed to `spec` and a running one is left as it is. Only a
        reserved guest can be defined, even without a root disk. Raises: NotFound: no reservation, or a disk is missing
        or partial.
        Refused: see `domain.device_assignment`.
        """
        ...

    async def start(self, key: GuestKey) -> None:
        """Ensure that the guest is running.

        Raises: Refused: another slot of the same server runs here; a running guest uses one of its PCI devices; it has
        no root disk and no volume with boot_index 0.
        """
        ...

    async def stop(self, key: GuestKey, timeout_s: float) -> None:
        """Ensure that the guest is not running: request a shutdown, after `timeout_s` power off."""
        ...

    async def reboot(self, key: GuestKey, hard: bool) -> None:
        """Restart the guest. soft: request a reboot; hard: power cycle, also a stopped guest."""
        ...

    async def destroy(self, key: GuestKey) -> None:
        """Remove guest, disks and reservation of this slot. Idempotent."""
        ...

    # Devices: changed in the definition, and at once in a running guest. All repeatable.

    async def plug(self, key: GuestKey, nic: GuestNic) -> None:
        """Ensure that a defined guest has a nic. Raises: Refused: in use by another server; `device_assignment`."""
        ...

    async def unplug(self, key: GuestKey, port_id: str) -> None:
        """Ensure that the guest has no nic of this port; no guest is fine.

        Raises: Unavailable: a running guest has not released it yet.
        """
        ...

    async def attach_volume(self, key: GuestKey, volume: GuestVolume) -> None:
        """Ensure that a defined guest has a volume. Raises: Refused: unreachable; see `device_assignment`."""
        ...

    async def detach_volume(self, key: GuestKey, volume_id: str) -> None:
        """Ensure that the guest does not have the volume; no guest is fine.

        Raises: Unavailable: a running guest has not released it yet. Refused: a running guest has booted from it.
        """
        ...

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        """Return the last `lines` lines of the serial console. None: all that is kept."""
        ...

    def read_snapshot(self, key: GuestKey, percent: Percent, disk: DiskName = "root") -> AsyncIterator[bytes]:
        """Yield a disk's current contents as one image file (qcow2 for real disks), in chunks.

        Raises: Refused: not the root disk, and the guest runs.
        """
        ...
