"""What a host can be asked for. The conductor calls and waits; hosts never call each other to decide anything.

Every changing call bears an Order. An agent refuses an epoch older than the newest it has seen of that run
(Superseded), whatever the verb, and remembers the newest durably. All calls may be repeated.
Raises, all of them: Unavailable: no answer, it may have happened. Refused: no. Superseded: see above. A changing call
whose guest or disk is missing is Refused; a reading one raises NotFound.
"""

from typing import Any, Protocol

from whimbrel.domain.guest import DiskExport, DiskName, Guest, GuestKey, GuestSpec, Ledger, Order, Progress
from whimbrel.domain.ids import HostName
from whimbrel.domain.server_devices import GuestNic, GuestVolume


class Agent(Protocol):
    async def look(self, key: GuestKey) -> Guest | None:
        """Observe one guest now; None: nothing of it is here."""
        ...

    async def guests(self) -> list[Guest]:
        """List every guest of ours on this host."""
        ...

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        """Give the last lines of the serial console."""
        ...

    async def connector(self) -> dict[str, Any]:
        """Tell what a volume service wants to know of this host, as Cinder's connectors do."""
        ...

    async def ledger(self, newest: int = 0) -> Ledger:
        """Return what this agent has obeyed, the newest first. newest: at most so many entries; 0: all."""
        ...

    async def adopt(self, incarnation: int) -> None:
        """Refuse orders of older incarnations of the cloud from now on. Repeatable; a lower one changes nothing."""
        ...

    async def prepare(self, order: Order, spec: GuestSpec) -> None:
        """Reserve room and name for a guest. Refused: no room."""
        ...

    async def build_disk(self, order: Order, spec: GuestSpec) -> Progress:
        """Make what is not there of a guest's disks, as a job keyed by run: asked again it tells of the same job.

        The root disk comes from its image; an ephemeral and a swap disk are blank.
        """
        ...

    async def export_disk(self, order: Order, key: GuestKey, disk: DiskName = "root") -> DiskExport:
        """Offer one of a stopped guest's disks for reading."""
        ...

    async def import_disk(self, order: Order, spec: GuestSpec, export: DiskExport, disk: DiskName = "root") -> Progress:
        """Copy an exported disk here, as a job keyed by run: asked again it tells of the same job."""
        ...

    async def fetch_disk(self, order: Order, spec: GuestSpec, image_id: str, disk: DiskName = "root") -> Progress:
        """Make a disk from an image that carries it, as a job keyed by run: asked again it tells of the same job."""
        ...

    async def unexport_disk(self, order: Order, key: GuestKey) -> None:
        """Stop offering its disks; fine if none was offered."""
        ...

    async def discard_disk(self, order: Order, key: GuestKey) -> None:
        """End running copies of this slot and remove its disks; fine if there is none. Never of a running guest."""
        ...

    async def define(self, order: Order, spec: GuestSpec) -> None:
        """Make the guest known, stopped, with its disks and exactly these nics, volumes and PCI devices.

        Fine if it is known: one that is stopped becomes what `spec` says, one that runs stays as it is.
        """
        ...

    async def start(self, order: Order, key: GuestKey) -> None:
        """Have it running."""
        ...

    async def stop(self, order: Order, key: GuestKey, timeout_s: float) -> None:
        """Have it stopped; fine if it is stopped or not there."""
        ...

    async def reboot(self, order: Order, key: GuestKey, hard: bool) -> None:
        """Restart it."""
        ...

    async def destroy(self, order: Order, key: GuestKey) -> None:
        """Remove this slot's guest, disks and reservation; fine if nothing is there."""
        ...

    async def plug(self, order: Order, key: GuestKey, nic: GuestNic) -> None:
        """Have a nic in a defined guest, at once if it runs."""
        ...

    async def unplug(self, order: Order, key: GuestKey, port_id: str) -> None:
        """Have no nic of this port in the guest; fine if there is none, or no guest."""
        ...

    async def attach_volume(self, order: Order, key: GuestKey, volume: GuestVolume) -> None:
        """Have a volume in a defined guest, at once if it runs."""
        ...

    async def detach_volume(self, order: Order, key: GuestKey, volume_id: str) -> None:
        """Have no such volume in the guest; fine if there is none, or no guest."""
        ...

    async def upload_snapshot(self, order: Order, key: GuestKey, image_id: str, disk: DiskName = "root") -> Progress:
        """Put a disk's contents into the image service as `image_id`, as a job keyed by run."""
        ...


class Agents(Protocol):
    def at(self, host: HostName) -> Agent:
        """Give the agent of a host; whether it answers shows at the first call."""
        ...
