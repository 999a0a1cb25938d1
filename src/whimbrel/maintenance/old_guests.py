"""Guests that servers have left behind: the sources of moves that wait for their verdict.

Such a guest is stopped, and a revert needs it with its disks. So its host is not empty, though no server is on it.
"""

from collections.abc import Collection

from whimbrel.domain.errors import NotFound
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.maintenance_plan import MaintenanceItem
from whimbrel.domain.run import has_facts
from whimbrel.moves.facts import Move, MoveFacts, moves_of
from whimbrel.moves.migration_status import MIGRATION_TYPES
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup


async def items_of(
    cloud: Cloud, hosts: Collection[Host], first: int, known: Collection[ServerId]
) -> list[MaintenanceItem]:
    """Return an item that stays for each old guest of these hosts. known: servers that have an item."""
    names = {host.name for host in hosts}
    parked = await cloud.journal.find(RunFilter(sagas=sorted(MIGRATION_TYPES), states=("parked",)))
    items: list[MaintenanceItem] = []
    for move in moves_of(reversed(parked)):
        source = move.facts.source
        if source is None or source.host not in names or move.subject in known:
            continue
        try:
            server = await lookup.find(cloud, move.subject)
        except NotFound:
            continue  # it was deleted meanwhile
        item = MaintenanceItem(
            position=first + len(items),
            server_id=server.id,
            server_name=server.name,
            source=source.host,
            kind=None,
            target=None,
            group_id=None,
            project_id=server.project_id,
            state="stays",
            reason=_why(move),
        )
        items.append(item)
    return items


async def why_left_behind(cloud: Cloud, server: ServerId, host: HostName) -> str | None:
    """Return why a server that has left a host has its old guest there, None: it has none."""
    run = await cloud.journal.open_run(server)
    if run is None or run.state != "parked" or not has_facts(run, MoveFacts):
        return None
    return _why(run) if run.facts.source and run.facts.source.host == host else None


def _why(move: Move) -> str:
    to = f" to {move.facts.target.host}" if move.facts.target else ""
    return f"its {move.saga}{to} waits to be confirmed or reverted: until then its old guest stays here"
