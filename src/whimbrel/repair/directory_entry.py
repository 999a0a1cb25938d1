"""Directory entries that are older than the deletion of their server, and the step that marks them deleted.

Invariant: only if every host and cell answers, the server has no guest, and its own cell has it as deleted.
"""

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import CellName, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence


async def is_closed(seen: ServerEvidence, snapshot: CloudSnapshot, cloud: Cloud) -> bool:
    """Check whether a server is deleted in its cell and not in the directory."""
    if not seen.is_alive or seen.entry is None or seen.entry.cell is None:
        return False
    if seen.records or seen.guests or seen.runs or snapshot.unreachable_cells or snapshot.unreachable:
        return False
    return await closed_record(seen.id, seen.entry.cell, cloud) is not None


async def erase_entry(run: Run, cloud: Cloud) -> None:
    """Mark the entry deleted. Raises: Refused: the record in its cell is not deleted."""
    entry = await cloud.directory.entry(run.subject, deleted_too=True)
    if entry.cell is None or not await closed_record(run.subject, entry.cell, cloud):
        raise Refused(f"server {run.subject} is not deleted in its cell; the directory is not changed")
    await cloud.directory.erase(run.order, run.subject, cloud.clock.now())


async def closed_record(server: ServerId, cell: CellName, cloud: Cloud) -> Server | None:
    """Return the record of a server if it is deleted in this cell."""
    found = await cloud.cell(cell).servers.find(ServerQuery(ids=[server], deleted=True))
    return found[0] if found else None
