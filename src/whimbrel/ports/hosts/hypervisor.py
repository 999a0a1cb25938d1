"""The hypervisor of an agent: small phases, each repeatable, keyed by server and slot.

An adapter keeps no state in memory that matters: after a crash of its process the same calls continue.
Raises, in all methods: Unavailable: no answer. Refused. NotFound: a required guest or disk is missing.
`domain.device_assignment` limits the devices of a guest, for all adapters alike.

A guest without a root disk (has_local_root False) is reserved, defined and started like others. The set of a guest's
disks is fixed when it is reserved.
"""

from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, Protocol

from whimbrel.domain.console import ConsoleKind
from whimbrel.domain.guest import Capacity, DiskExport, DiskName, Guest, GuestKey, GuestSpec
from whimbrel.domain.guest_diagnostics import Diagnostics
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice
from whimbrel.domain.live_transfer import (
    CpuFit,
    GuestCpu,
    LiveGuest,
    Steering,
    TransferOptions,
    TransferProgress,
    TransferTarget,
)
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.domain.server_devices import GuestNic, GuestVolume
from whimbrel.domain.volume_merge import Merge
from whimbrel.ports.hosts.consoles import ConsoleStream

Percent = Callable[[int], None]
"""Called by a long phase from time to time with 0 to 100."""


class Hypervisor(Protocol):
    async def capacity(self) -> Capacity: ...

    async def metrics(self) -> dict[str, float]:
        """Return the load of the host by Nova's names: "cpu.percent" from 0 to 1, "cpu.user.time" in nanoseconds ...

        Shares are those since the previous call; the first call may return none.
        """

    async def uptime(self) -> str:
        """Return what the program `uptime` prints on the host. Raises: Refused: unknown here."""

    async def nics(self, names: Collection[str]) -> tuple[FoundNic, ...]:
        """Return the network cards of the host, and other network devices of these names, in order of their names.

        Raises: Refused: they cannot be listed here.
        """

    async def pci_devices(self) -> tuple[FoundPciDevice, ...]:
        """Return the PCI devices of the host, in order of their addresses. Raises: Refused: as above."""

    async def connector(self) -> dict[str, Any]:
        """Return the host's connector for a volume service: "host", "ip", "platform", "os_type", "multipath" ..."""

    async def guests(self) -> list[Guest]:
        """Return all of Whimbrel's guests, running or not, with their slots, as read now."""

    async def look(self, key: GuestKey) -> Guest | None:
        """Return the current state of one guest; None: nothing of it exists."""

    async def reserve(self, spec: GuestSpec) -> None:
        """Reserve name and room for a guest. Raises: Refused: no room on this host."""

    async def create_disk(self, spec: GuestSpec, percent: Percent) -> None:
        """Make its disks: the root disk from the image (empty without one), grown to root_gib; the others blank.

        An ephemeral disk has an empty ext4 file system, a swap disk is formatted as swap space.
        A partial disk is remade, a complete one stays. Cancelling the call ends it and leaves at most a partial disk.
        """

    async def import_disk(self, spec: GuestSpec, export: DiskExport, percent: Percent, disk: DiskName = "root") -> None:
        """Make a disk a copy of an exported one, grown to its size. Partial and complete disks, cancelling: as above.

        Raises: Unavailable: the export is missing or ended early. Refused: the copy would not fit.
        """

    async def fetch_disk(self, spec: GuestSpec, image_id: str, percent: Percent, disk: DiskName = "root") -> None:
        """Make a disk from a transfer image, grown to its size. Otherwise as import_disk."""

    async def cache_image(self, image_id: str) -> None:
        """Fetch an image, so that disks are made from it without the image service. Repeatable.

        Raises: Refused: no such image, or one that no guest here can use.
        """

    async def export_disk(self, key: GuestKey, disk: DiskName = "root") -> DiskExport:
        """Export a disk of a stopped guest for reading until `unexport_disk`. Repeatable. Raises: Refused: it runs."""

    async def unexport_disk(self, key: GuestKey) -> None:
        """End the exports of its disks. Idempotent."""

    async def discard_disk(self, key: GuestKey) -> None:
        """Remove all disks of a guest that is not running. Idempotent."""

    async def define(self, spec: GuestSpec) -> None:
        """Define the guest, stopped, with its disks and exactly these nics, volumes and PCI devices.

        If it is defined already, a stopped guest is changed to `spec`, and one with memory is left as it is. Only a
        reserved guest can be defined, even without a root disk. Raises: NotFound: no reservation, or a disk is missing
        or partial.
        Refused: see `domain.device_assignment`.
        """

    async def start(self, key: GuestKey, paused: bool = False) -> None:
        """Ensure that the guest is running. paused: if it is off, start it paused: its nics are there, it does not run.

        Raises: Refused: another slot of the same server runs here; a running guest uses one of its PCI devices; it has
        no root disk and no volume with boot_index 0; it waits for a live transfer, or has left by one; it is suspended,
        or paused and is to run.
        """

    async def stop(self, key: GuestKey, timeout_s: float) -> None:
        """Ensure that the guest is off: request a shutdown, after `timeout_s` power off. Saved memory is discarded."""

    async def reboot(self, key: GuestKey, hard: bool) -> None:
        """Restart the guest. soft: request a reboot; hard: power cycle, also a stopped guest."""

    async def destroy(self, key: GuestKey) -> None:
        """Remove guest, disks and reservation of this slot. Idempotent."""

    # Pausing

    async def pause(self, key: GuestKey) -> None:
        """Ensure that a running guest is paused, with its memory. Raises: Refused: it does not run."""

    async def suspend(self, key: GuestKey) -> None:
        """Ensure that a live guest is suspended: it does not run, and its memory is kept on disk.

        Until it is resumed or rebooted hard it does not start or change, and it keeps no other slot from running.
        Raises: Refused: it is stopped.
        """

    async def resume(self, key: GuestKey) -> None:
        """Ensure that a paused or suspended guest runs again, with its memory. Raises: Refused: it is stopped."""

    async def firmware_variables(self, key: GuestKey) -> bytes:
        """Return the variables of the UEFI of a guest that is off, compressed; b"": there are none.

        Raises: Refused: the guest runs.
        """
        ...

    async def diagnostics(self, key: GuestKey) -> Diagnostics:
        """Measure a live guest. Raises: Refused: it does not run."""

    async def inject_nmi(self, key: GuestKey) -> None:
        """Send a live guest a non-maskable interrupt. Raises: Refused: it does not run."""

    # Rescue: the guest boots from a disk of its own, and gets its own disk back as it is

    async def create_rescue_disk(self, key: GuestKey, rescue: RescueDisk, percent: Percent) -> None:
        """Make the rescue disk of a defined guest, as large as its image. One of another image is made anew.

        Raises: Refused: the guest boots from one of another image.
        """

    async def enter_rescue(self, key: GuestKey) -> None:
        """Ensure that a stopped guest boots from its rescue disk. Raises: Refused: it is not off; NotFound: no disk."""

    async def leave_rescue(self, key: GuestKey) -> None:
        """Ensure that a stopped guest boots as it is defined; a reboot from outside (hard) does so too.

        No effect without a guest. Raises: Refused: it is in rescue and not off.
        """

    async def discard_rescue_disk(self, key: GuestKey) -> None:
        """Remove the rescue disk. Idempotent. Raises: Refused: the guest boots from it."""

    async def set_password(self, key: GuestKey, user: str, password: str) -> None:
        """Set the password of a user of the guest, by QEMU's guest agent. Repeatable.

        Raises: NotFound; NoGuestAgent: none answers; Refused: the guest does not run, or its agent refuses.
        """

    # Live transfers, see domain.live_transfer. A transfer goes on when the process that started it dies, or fails as a
    # whole; the guest is always at exactly one of both hosts.

    async def examine(self, key: GuestKey, movable: tuple[str, ...] = ()) -> LiveGuest:
        """Return what a target must know of a guest. Raises: NotFound; Refused: it does not run.

        movable: as of the agent's.
        """

    async def compare_cpu(self, cpu: GuestCpu) -> CpuFit:
        """Check whether this host can run a guest that sees this processor."""

    async def receive(self, spec: GuestSpec, live: LiveGuest) -> TransferTarget:
        """Make a reserved guest incoming: with room for its disks, and with exactly the devices of `spec`.

        Repeatable; a guest that has arrived is left as it is. Raises: NotFound: no reservation. Refused: see
        `domain.device_assignment`; this hypervisor cannot receive it.
        """

    async def start_transfer(self, key: GuestKey, target: TransferTarget, options: TransferOptions) -> None:
        """Begin to copy a live guest to a target that waits for it; a transfer to this target goes on.

        Raises: Refused: the guest does not run, cannot be moved, or is being transferred to another target.
        """

    async def transfer_progress(self, key: GuestKey, target: str) -> TransferProgress:
        """Return the transfer of a guest to the target with this address, as it is now."""

    async def steer_transfer(self, key: GuestKey, steering: Steering) -> None:
        """Change the transfer under way, if there is one. Repeatable. Raises: Refused: not possible with this one."""

    async def end_transfer(self, key: GuestKey) -> None:
        """Cancel the transfer under way, and return when there is none; a guest that has left stays where it is.

        Raises: Refused: it is in post-copy, and can only go on.
        """

    async def settle_arrival(self, key: GuestKey) -> None:
        """Make the definition of an arrived guest permanent. Repeatable. Raises: NotFound: it has not arrived."""

    # Devices: changed in the definition, and at once in a running guest. All repeatable.

    async def plug(self, key: GuestKey, nic: GuestNic) -> None:
        """Ensure that a defined guest has a nic. Raises: Refused: in use by another server; `device_assignment`."""

    async def unplug(self, key: GuestKey, port_id: str) -> None:
        """Ensure that the guest, if there is one, has no NIC of this port.

        Raises: Unavailable: a running guest has not released it yet.
        """

    async def attach_volume(self, key: GuestKey, volume: GuestVolume) -> None:
        """Ensure that a defined guest has a volume. Raises: Refused: unreachable; see `device_assignment`."""

    async def detach_volume(self, key: GuestKey, volume_id: str) -> None:
        """Ensure that the guest, if there is one, does not have the volume.

        Raises: Unavailable: a running guest has not released it yet. Refused: a running guest has booted from it.
        """

    async def swap_volume(self, key: GuestKey, volume_id: str, new: GuestVolume, percent: Percent) -> None:
        """Copy a live guest's volume to another one, which it uses from then on.

        new: by its own id, attachment and connection. The guest keeps the old id, name and position for it; the host
        disconnects the old one. Repeatable: it joins a copy under way, which goes on when the call is cancelled.
        Raises: NotFound; Refused: the guest does not run or has no such volume; the copy failed.
        """

    async def end_volume_swap(self, key: GuestKey, volume_id: str, attachment_id: str) -> None:
        """End the copy of a volume under way, and disconnect the new one. No effect without a copy or a guest.

        attachment_id: of the new volume. Raises: Refused: the guest uses that one already.
        """

    async def extend_volume(self, key: GuestKey, volume_id: str, size_gib: int) -> None:
        """Show a live guest that one of its volumes has become larger; one that is off sees it when it starts.

        size_gib: of the volume, as its service has it. It never becomes smaller for a guest. Repeatable.
        Raises: NotFound; Refused: it has no such volume; it is suspended; the host does not see the new size.
        """

    async def take_volume_snapshot(self, key: GuestKey, volume_id: str, file: str) -> None:
        """Switch a guest to another file of its volume; the file before keeps its content.

        file: qcow2, in the share of the volume, which the volume service made above the active one. The guest's file
        systems are frozen for that instant if it has an agent. A stopped guest uses the file from its next start on.
        Repeatable. Raises: NotFound; Refused: it has no such volume, or not as a file; it is suspended.
        """

    async def merge_volume_files(self, key: GuestKey, volume_id: str, merge: Merge, percent: Percent) -> None:
        """Merge two files of a guest's volume. The guest goes on; only into the active file also for a stopped one.

        Repeatable: it joins a merge under way, which goes on when the call is cancelled. Each way it ends, the guest
        has all its data. Raises: NotFound; Refused: see `volume_merge.merged`; it does not run; the merge failed.
        """

    async def release_volumes(self) -> None:
        """Disconnect the volumes that no live guest uses, such as those of guests that ended by themselves.

        Repeatable; operations on a guest do it for the guest.
        """

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        """Return the last `lines` lines of the serial console. None: all that is kept."""

    async def connect_console(self, key: GuestKey, kind: ConsoleKind) -> ConsoleStream:
        """Connect to a console of a live guest. The connection ends with the guest's process here.

        A serial line has one connection: a newer one ends it. A screen has several.

        Raises: NotFound; Refused: the guest does not run, or has no such console.
        """

    def read_snapshot(self, key: GuestKey, percent: Percent, disk: DiskName = "root") -> AsyncIterator[bytes]:
        """Yield a disk's current contents as one image file (qcow2 for real disks), in chunks.

        A running guest with an agent freezes its file systems for the instant of the copy, if it can.
        Raises: Refused: not the root disk, and the guest runs; it requires to be frozen, and cannot.
        """
