"""An entry of the directory that is older than the deletion of its server: it is closed, as the cell's record is.

Law: only where every host and cell answers, it has no guest, and its own cell says that it is deleted.
"""

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import CellName, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence


async def is_closed(seen: ServerEvidence, snapshot: CloudSnapshot, cloud: Cloud) -> bool:
    """Check whether a server that the directory says is alive was deleted."""
    if not seen.is_alive or seen.entry is None or seen.entry.cell is None:
        return False
    if seen.records or seen.guests or seen.runs or snapshot.blind or snapshot.silent:
        return False
    return await closed_record(seen.id, seen.entry.cell, cloud) is not None


async def erase_entry(run: Run, cloud: Cloud) -> None:
    """Mark the entry deleted, once its cell's record was seen to be. Raises: Refused: it is not."""
    entry = await cloud.directory.entry(run.subject, deleted_too=True)
    if entry.cell is None or not await closed_record(run.subject, entry.cell, cloud):
        raise Refused(f"server {run.subject} is not deleted in its cell; the directory stays as it is")
    await cloud.directory.erase(run.order, run.subject, cloud.clock.now())


async def closed_record(server: ServerId, cell: CellName, cloud: Cloud) -> Server | None:
    """Return the record of a server that its cell says is deleted."""
    found = await cloud.cell(cell).servers.find(ServerQuery(ids=[server], deleted=True))
    return found[0] if found else None
