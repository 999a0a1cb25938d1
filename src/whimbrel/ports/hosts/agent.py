"""The agent of a host. The conductor calls and waits; hosts never call each other for a decision.

Every changing call has an Order. An agent refuses (Superseded) an epoch older than the newest it has seen of that run,
whatever the call, and stores the newest durably. All calls are repeatable.
Raises, in all methods: Unavailable: no answer, it may have happened. Refused. Superseded: see above. If the guest or
disk is missing, a changing call raises Refused, a reading one NotFound.
"""

from typing import Any, Protocol

from whimbrel.domain.console import ConsoleAddress, ConsoleKind
from whimbrel.domain.guest import DiskExport, DiskName, Guest, GuestKey, GuestSpec, Ledger, Order, Progress
from whimbrel.domain.guest_diagnostics import Diagnostics
from whimbrel.domain.ids import HostName
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


class Agent(Protocol):
    async def look(self, key: GuestKey) -> Guest | None:
        """Return the current state of one guest; None: nothing of it exists."""

    async def guests(self) -> list[Guest]:
        """Return all of Whimbrel's guests on this host."""

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        """Return the last lines of the serial console."""

    async def open_console(self, key: GuestKey, kind: ConsoleKind) -> ConsoleAddress:
        """Connect to a console of a live guest, and return where one client can take the connection over.

        Raises: Refused: the guest does not run, or has no such console.
        """

    async def uptime(self) -> str:
        """Return what the program `uptime` prints on the host. Raises: Refused: unknown here."""

    async def connector(self) -> dict[str, Any]:
        """Return the host's connector for a volume service, as Cinder's connectors do."""

    async def ledger(self, newest: int = 0) -> Ledger:
        """Return the orders that this agent has obeyed, the newest first. newest: maximum number of entries; 0: all."""

    async def adopt(self, incarnation: int) -> None:
        """Refuse orders of older incarnations of the cloud from now on. Repeatable; a lower one changes nothing."""

    async def cache_image(self, image_id: str) -> Progress:
        """Fetch an image ahead of its first use, as a job: a repeated call joins it, or finds the image cached.

        It has no order: it changes no guest, and a late call fetches an image that is not needed, no more.
        """

    async def prepare(self, order: Order, spec: GuestSpec) -> None:
        """Reserve room and name for a guest. Raises: Refused: no room."""

    async def build_disk(self, order: Order, spec: GuestSpec) -> Progress:
        """Make a guest's missing disks, as a job keyed by run: a repeated call returns the progress of the same job.

        The root disk is made from its image; ephemeral and swap disks are blank.
        """

    async def export_disk(self, order: Order, key: GuestKey, disk: DiskName = "root") -> DiskExport:
        """Export one of a stopped guest's disks for reading."""

    async def import_disk(self, order: Order, spec: GuestSpec, export: DiskExport, disk: DiskName = "root") -> Progress:
        """Copy an exported disk here, as a job keyed by run: a repeated call returns the progress of the same job."""

    async def fetch_disk(self, order: Order, spec: GuestSpec, image_id: str, disk: DiskName = "root") -> Progress:
        """Make a disk from a transfer image, as a job keyed by run; see import_disk."""

    async def unexport_disk(self, order: Order, key: GuestKey) -> None:
        """End the exports of its disks. Idempotent."""

    async def discard_disk(self, order: Order, key: GuestKey) -> None:
        """Cancel running copies of this slot and remove its disks. Idempotent. Never for a running guest."""

    async def define(self, order: Order, spec: GuestSpec) -> None:
        """Define the guest, stopped, with its disks and exactly these nics, volumes and PCI devices.

        If it is defined already, a stopped guest is changed to `spec` and a running one is left as it is.
        """

    async def start(self, order: Order, key: GuestKey, paused: bool = False) -> None:
        """Ensure that the guest is running. paused: if it is off, start it paused, with all its devices."""

    async def stop(self, order: Order, key: GuestKey, timeout_s: float) -> None:
        """Ensure that the guest is not running."""

    async def reboot(self, order: Order, key: GuestKey, hard: bool) -> None:
        """Restart the guest."""

    async def destroy(self, order: Order, key: GuestKey) -> None:
        """Remove this slot's guest, disks and reservation. Idempotent."""

    async def plug(self, order: Order, key: GuestKey, nic: GuestNic) -> None:
        """Ensure that a defined guest has a nic, at once if it runs."""

    async def unplug(self, order: Order, key: GuestKey, port_id: str) -> None:
        """Ensure that the guest, if there is one, has no NIC of this port."""

    async def attach_volume(self, order: Order, key: GuestKey, volume: GuestVolume) -> None:
        """Ensure that a defined guest has a volume, at once if it runs."""

    async def detach_volume(self, order: Order, key: GuestKey, volume_id: str) -> None:
        """Ensure that the guest, if there is one, does not have the volume."""

    async def swap_volume(self, order: Order, key: GuestKey, volume_id: str, new: GuestVolume) -> Progress:
        """Copy a live guest's volume to another one, which it uses from then on, as a job keyed by run and attachment.

        finished: the guest uses the new volume, for good, under the id of the old one.
        """

    async def end_volume_swap(self, order: Order, key: GuestKey, volume_id: str, attachment_id: str) -> None:
        """End the copy of a volume under way. No effect without a copy or a guest.

        attachment_id: of the new volume. Raises: Refused: the guest uses that one already.
        """

    async def extend_volume(self, order: Order, key: GuestKey, volume_id: str, size_gib: int) -> None:
        """Show a live guest that one of its volumes has become larger; one that is off sees it when it starts."""

    async def take_volume_snapshot(self, order: Order, key: GuestKey, volume_id: str, file: str) -> None:
        """Switch a guest to another file of its volume, which the volume service has created for a snapshot."""

    async def merge_volume_files(self, order: Order, key: GuestKey, volume_id: str, merge: Merge) -> Progress:
        """Merge two files of a guest's volume, whose snapshot is deleted, as a job keyed by run and merge."""

    async def upload_snapshot(self, order: Order, key: GuestKey, image_id: str, disk: DiskName = "root") -> Progress:
        """Upload a disk to the image service as `image_id`, as a job keyed by run."""

    async def pause(self, order: Order, key: GuestKey) -> None:
        """Ensure that a running guest is paused, with its memory. Raises: Refused: it does not run."""

    async def suspend(self, order: Order, key: GuestKey) -> None:
        """Ensure that a live guest is suspended, its memory on disk. Raises: Refused: it is stopped."""

    async def resume(self, order: Order, key: GuestKey) -> None:
        """Ensure that a paused or suspended guest runs again, with its memory. Raises: Refused: it is stopped."""

    async def firmware_variables(self, key: GuestKey) -> bytes:
        """Return the variables of the UEFI of a guest that is off, compressed; b"": there are none.

        Raises: Refused: the guest runs.
        """
        ...

    async def diagnostics(self, key: GuestKey) -> Diagnostics:
        """Measure a live guest. Raises: Refused: it does not run."""

    async def inject_nmi(self, order: Order, key: GuestKey) -> None:
        """Send a live guest a non-maskable interrupt. Raises: Refused: it does not run."""

    async def set_password(self, order: Order, key: GuestKey, user: str, password: str) -> None:
        """Set the password of a user of the guest. Raises: NoGuestAgent: none answers; Refused: the guest refuses."""

    async def build_rescue_disk(self, order: Order, key: GuestKey, rescue: RescueDisk) -> Progress:
        """Make a guest's rescue disk, as a job keyed by run: a repeated call returns the progress of the same job."""

    async def enter_rescue(self, order: Order, key: GuestKey) -> None:
        """Ensure that a stopped guest boots from its rescue disk. Raises: Refused: it is not off; no such disk."""

    async def leave_rescue(self, order: Order, key: GuestKey) -> None:
        """Ensure that a stopped guest boots as it is defined. Idempotent. Raises: Refused: it is not off."""

    async def discard_rescue_disk(self, order: Order, key: GuestKey) -> None:
        """Remove the rescue disk, if there is one. Raises: Refused: the guest boots from it."""

    async def examine(self, key: GuestKey, movable: tuple[str, ...] = ()) -> LiveGuest:
        """Return what a target must know of a live guest. Raises: Refused: it does not run, or there is none.

        movable: addresses of PCI devices that can be moved while it runs; with any other one it is immovable.
        """

    async def compare_cpu(self, cpu: GuestCpu) -> CpuFit:
        """Check whether this host can run a guest that sees this processor."""

    async def receive(self, order: Order, spec: GuestSpec, live: LiveGuest) -> TransferTarget:
        """Prepare a reserved guest for a live transfer from another host; see the hypervisor's."""

    async def transfer(
        self, order: Order, key: GuestKey, target: TransferTarget, options: TransferOptions
    ) -> TransferProgress:
        """Start a live transfer, or join the one to this target, and return its progress at once.

        arrived: the guest has left this host for good. Raises: Refused: it failed, the guest cannot be moved, or
        `end_transfer` came first.
        """

    async def steer_transfer(self, order: Order, key: GuestKey, steering: Steering) -> None:
        """Change the transfer under way, if there is one. Raises: Refused: not possible with this one."""

    async def end_transfer(self, order: Order, key: GuestKey) -> None:
        """Cancel the transfer under way; none that was ordered by this order's epoch and progress begins any more.

        Where the guest is afterwards is to be observed. Raises: Refused: it is in post-copy, and can only go on.
        """

    async def settle_arrival(self, order: Order, key: GuestKey) -> None:
        """Make the definition of an arrived guest permanent. Idempotent. Raises: Refused: it has not arrived."""


class Agents(Protocol):
    def at(self, host: HostName) -> Agent:
        """Return the agent of a host, without contacting it."""
