"""The agent of a host. The conductor calls and waits; hosts never call each other for a decision.

Every changing call has an Order. An agent refuses (Superseded) an epoch older than the newest it has seen of that run,
whatever the call, and stores the newest durably. All calls are repeatable.
Raises, in all methods: Unavailable: no answer, it may have happened. Refused. Superseded: see above. If the guest or
disk is missing, a changing call raises Refused, a reading one NotFound.
"""

from typing import Any, Protocol

from whimbrel.domain.guest import DiskExport, DiskName, Guest, GuestKey, GuestSpec, Ledger, Order, Progress
from whimbrel.domain.ids import HostName
from whimbrel.domain.server_devices import GuestNic, GuestVolume


class Agent(Protocol):
    async def look(self, key: GuestKey) -> Guest | None:
        """Return the current state of one guest; None: nothing of it exists."""
        ...

    async def guests(self) -> list[Guest]:
        """Return all of Whimbrel's guests on this host."""
        ...

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        """Return the last lines of the serial console."""
        ...

    async def connector(self) -> dict[str, Any]:
        """Return the host's connector for a volume service, as Cinder's connectors do."""
        ...

    async def ledger(self, newest: int = 0) -> Ledger:
        """Return the orders that this agent has obeyed, the newest first. newest: maximum number of entries; 0: all."""
        ...

    async def adopt(self, incarnation: int) -> None:
        """Refuse orders of older incarnations of the cloud from now on. Repeatable; a lower one changes nothing."""
        ...

    async def prepare(self, order: Order, spec: GuestSpec) -> None:
        """Reserve room and name for a guest. Raises: Refused: no room."""
        ...

    async def build_disk(self, order: Order, spec: GuestSpec) -> Progress:
        """Make a guest's missing disks, as a job keyed by run: a repeated call returns the progress of the same job.

        The root disk is made from its image; ephemeral and swap disks are blank.
        """
        ...

    async def export_disk(self, order: Order, key: GuestKey, disk: DiskName = "root") -> DiskExport:
        """Export one of a stopped guest's disks for reading."""
        ...

    async def import_disk(self, order: Order, spec: GuestSpec, export: DiskExport, disk: DiskName = "root") -> Progress:
        """Copy an exported disk here, as a job keyed by run: a repeated call returns the progress of the same job."""
        ...

    async def fetch_disk(self, order: Order, spec: GuestSpec, image_id: str, disk: DiskName = "root") -> Progress:
        """Make a disk from a transfer image, as a job keyed by run; see import_disk."""
        ...

    async def unexport_disk(self, order: Order, key: GuestKey) -> None:
        """End the exports of its disks. Idempotent."""
        ...

    async def discard_disk(self, order: Order, key: GuestKey) -> None:
        """Cancel running copies of this slot and remove its disks. Idempotent. Never for a running guest."""
        ...

    async def define(self, order: Order, spec: GuestSpec) -> None:
        """Define the guest, stopped, with its disks and exactly these nics, volumes and PCI devices.

        If it is defined already, a stopped guest is changed to `spec` and a running one is left as it is.
        """
        ...

    async def start(self, order: Order, key: GuestKey) -> None:
        """Ensure that the guest is running."""
        ...

    async def stop(self, order: Order, key: GuestKey, timeout_s: float) -> None:
        """Ensure that the guest is not running."""
        ...

    async def reboot(self, order: Order, key: GuestKey, hard: bool) -> None:
        """Restart the guest."""
        ...

    async def destroy(self, order: Order, key: GuestKey) -> None:
        """Remove this slot's guest, disks and reservation. Idempotent."""
        ...

    async def plug(self, order: Order, key: GuestKey, nic: GuestNic) -> None:
        """Ensure that a defined guest has a nic, at once if it runs."""
        ...

    async def unplug(self, order: Order, key: GuestKey, port_id: str) -> None:
        """Ensure that the guest has no nic of this port; no guest is fine."""
        ...

    async def attach_volume(self, order: Order, key: GuestKey, volume: GuestVolume) -> None:
        """Ensure that a defined guest has a volume, at once if it runs."""
        ...

    async def detach_volume(self, order: Order, key: GuestKey, volume_id: str) -> None:
        """Ensure that the guest does not have the volume; no guest is fine."""
        ...

    async def upload_snapshot(self, order: Order, key: GuestKey, image_id: str, disk: DiskName = "root") -> Progress:
        """Upload a disk to the image service as `image_id`, as a job keyed by run."""
        ...


class Agents(Protocol):
    def at(self, host: HostName) -> Agent:
        """Return the agent of a host, without contacting it."""
        ...
