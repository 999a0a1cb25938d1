"""What an agent needs of a hypervisor: small phases, each safe to repeat, keyed by server and slot.

An adapter keeps no promises in memory: after its process was killed the same calls go on where they stood.
All raise Unavailable where the hypervisor gives no answer, Refused where it says no, NotFound where a guest or a
disk that must be there is not. What a guest can be given is held by `domain.device_assignment`, for all of them alike.

A guest that has no root disk of its own (GuestSpec.has_local_root) is reserved, defined and started like others; its
root disk is not asked for. Which disks a guest has is said when it is reserved, and stays.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from whimbrel.domain.guest import Capacity, DiskExport, DiskName, Guest, GuestKey, GuestSpec
from whimbrel.domain.server_devices import GuestNic, GuestVolume

Percent = Callable[[int], None]
"""Called now and then by a long phase with 0 to 100."""


class Hypervisor(Protocol):
    async def capacity(self) -> Capacity: ...

    async def metrics(self) -> dict[str, float]:
        """Tell the load of the host by Nova's names: "cpu.percent" from 0 to 1, "cpu.user.time" in nanoseconds ...

        Shares are those of the time since it was asked before; asked for the first time it may tell none.
        """
        ...

    async def connector(self) -> dict[str, Any]:
        """Tell what a volume service wants to know of a host: "host", "ip", "platform", "os_type", "multipath" ..."""
        ...

    async def guests(self) -> list[Guest]:
        """List every guest of ours, running or not, with its slots: found afresh, not remembered."""
        ...

    async def look(self, key: GuestKey) -> Guest | None:
        """Observe one guest now; None: nothing of it is here."""
        ...

    async def reserve(self, spec: GuestSpec) -> None:
        """Take the name and the room for a guest that will come. Refused: no room on this host."""
        ...

    async def create_disk(self, spec: GuestSpec, percent: Percent) -> None:
        """Make its disks: the root disk from the image (or empty without one), grown to root_gib; the others blank.

        An ephemeral disk is an ext4 file system with nothing in it, a swap disk is one that a guest can use as it is.

        A half-made one is redone, a whole one stays. Ended by cancelling it, which leaves no more than a half-made one.
        """
        ...

    async def import_disk(self, spec: GuestSpec, export: DiskExport, percent: Percent, disk: DiskName = "root") -> None:
        """Make a disk a whole copy of an exported one, grown to its size. Half made, whole, cancelled: as above.

        Raises: Unavailable: it is not offered now, or not until the end. Refused: the copy would not fit.
        """
        ...

    async def fetch_disk(self, spec: GuestSpec, image_id: str, percent: Percent, disk: DiskName = "root") -> None:
        """Make a disk of an image that nobody else will need, grown to its size. Otherwise as import_disk."""
        ...

    async def export_disk(self, key: GuestKey, disk: DiskName = "root") -> DiskExport:
        """Offer a disk of a stopped guest for reading until `unexport_disk`. Repeatable. Refused: it runs."""
        ...

    async def unexport_disk(self, key: GuestKey) -> None:
        """Stop offering any of its disks; fine if none was offered."""
        ...

    async def discard_disk(self, key: GuestKey) -> None:
        """Remove all disks of a guest that does not run; fine if there is none."""
        ...

    async def define(self, spec: GuestSpec) -> None:
        """Make the guest known, stopped, with its disks and exactly these nics, volumes and PCI devices.

        Again: one that is stopped becomes what `spec` says, one that runs stays as it is. Only what was reserved can be
        defined, also where there is no root disk. NotFound: nothing is reserved, or a disk is not there, whole.
        Refused: see `fitting`.
        """
        ...

    async def start(self, key: GuestKey) -> None:
        """Have it running; fine if it runs.

        Refused: another slot of the same server runs here; a PCI device of it is in a running guest; it has no root
        disk and no volume with boot_index 0.
        """
        ...

    async def stop(self, key: GuestKey, timeout_s: float) -> None:
        """Have it stopped: ask the guest to shut down, after `timeout_s` switch it off. Fine if stopped or absent."""
        ...

    async def reboot(self, key: GuestKey, hard: bool) -> None:
        """Restart it. soft: ask the guest; hard: power cycle, also from stopped."""
        ...

    async def destroy(self, key: GuestKey) -> None:
        """Remove guest, disks and reservation of this slot; fine if nothing is there."""
        ...

    # Devices: of a running guest at once, and in its definition either way. Each may be repeated.

    async def plug(self, key: GuestKey, nic: GuestNic) -> None:
        """Have a nic in a defined guest; what is plugged stays. Refused: another server's guest has it; `fitting`."""
        ...

    async def unplug(self, key: GuestKey, port_id: str) -> None:
        """Have no nic of this port in the guest; fine if there is none, or no guest.

        Raises: Unavailable: a running guest has not let go of it yet.
        """
        ...

    async def attach_volume(self, key: GuestKey, volume: GuestVolume) -> None:
        """Have a volume in a defined guest; what is attached stays. Refused: see `fitting`, or it cannot be reached."""
        ...

    async def detach_volume(self, key: GuestKey, volume_id: str) -> None:
        """Have no such volume in the guest; fine if there is none, or no guest.

        Raises: Unavailable: a running guest has not let go of it yet. Refused: a running guest has booted from it.
        """
        ...

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        """Give the last `lines` lines of the serial console, None: all that is kept."""
        ...

    def read_snapshot(self, key: GuestKey, percent: Percent, disk: DiskName = "root") -> AsyncIterator[bytes]:
        """Give a disk's contents now as one image file (qcow2 for real ones), in chunks.

        Refused: not the root disk, of a guest that runs.
        """
        ...
