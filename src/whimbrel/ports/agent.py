"""What a host can be asked for. The conductor calls and waits; hosts never call each other to decide anything.

Every changing call bears an Order. An agent refuses an epoch older than the newest it has seen of that run
(Superseded), whatever the verb, and remembers the newest durably. All calls may be repeated.
Raises, all of them: Unavailable: no answer, it may have happened. Refused: no. Superseded: see above. A changing call
whose guest or disk is missing is Refused; a reading one raises NotFound.
"""

from typing import Protocol

from whimbrel.domain.guest import DiskExport, Guest, GuestKey, GuestSpec, Order, Progress
from whimbrel.domain.ids import HostName


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

    async def prepare(self, order: Order, spec: GuestSpec) -> None:
        """Reserve room and name for a guest. Refused: no room."""
        ...

    async def build_disk(self, order: Order, spec: GuestSpec) -> Progress:
        """Make the disk from its image, as a job keyed by run: asked again it tells of the same job."""
        ...

    async def export_disk(self, order: Order, key: GuestKey) -> DiskExport:
        """Offer a stopped guest's disk for reading."""
        ...

    async def import_disk(self, order: Order, spec: GuestSpec, export: DiskExport) -> Progress:
        """Copy an exported disk here, as a job keyed by run: asked again it tells of the same job."""
        ...

    async def unexport_disk(self, order: Order, key: GuestKey) -> None:
        """Stop offering a disk; fine if it was not offered."""
        ...

    async def discard_disk(self, order: Order, key: GuestKey) -> None:
        """End a running copy of this slot and remove its disk; fine if there is none. Never of a running guest."""
        ...

    async def define(self, order: Order, spec: GuestSpec) -> None:
        """Make the guest known, stopped, with the disk that is there."""
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
        """Remove this slot's guest, disk and reservation; fine if nothing is there."""
        ...

    async def upload_snapshot(self, order: Order, key: GuestKey, image_id: str) -> Progress:
        """Put the disk's contents into the image service as `image_id`, as a job keyed by run."""
        ...


class Agents(Protocol):
    def at(self, host: HostName) -> Agent:
        """Give the agent of a host; whether it answers shows at the first call."""
        ...
