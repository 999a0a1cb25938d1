"""Look up a server's record: the directory names its cell, and copies in other cells are invisible."""

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.servers import Record, ServerQuery
from whimbrel.servers.listing import cell_fanout
from whimbrel.servers.listing.all_cells import AllCells


async def find(cloud: Cloud, server_id: ServerId) -> Server:
    """Raises: as `record`."""
    return (await record(cloud, server_id)).server


async def record(cloud: Cloud, server_id: ServerId) -> Record:
    """Return a server with the run that locks its record.

    Raises: NotFound: unknown or deleted; Unavailable: its cell does not answer.
    """
    entry = await cloud.directory.entry(server_id)
    while entry.unplaced is None:
        assert entry.cell, "an entry has a record or a cell"
        try:
            return await cell_fanout.ask(cloud, entry.cell, lambda cell: cell.servers.record(server_id))
        except NotFound:
            # It was displaced or moved between the two reads: ask the directory again.
            before, entry = entry, await cloud.directory.entry(server_id)
            if entry.cell == before.cell:
                raise
    return Record(entry.unplaced)


async def listing(cloud: Cloud, query: ServerQuery) -> list[Server]:
    """List servers of all cells and those without one: each once, sorted, after the marker, limited.
    Raises: Unavailable: a cell that may have some of them does not answer.
    """
    listed = await AllCells(cloud, query).take()
    cell_fanout.check(listed.unreachable)
    return listed.servers


async def on_host(cloud: Cloud, cell: CellName, host: HostName) -> list[Server]:
    """List the servers on a host. Raises: Unavailable: the cell does not answer."""
    reading = await cell_fanout.ask(cloud, cell, lambda each: each.servers.read(ServerQuery(host=host)))
    if not reading.copied:
        return reading.servers
    homes = await cloud.directory.entries(sorted(reading.copied))
    return [server for server in reading.servers if server.id not in homes or homes[server.id].cell == cell]
