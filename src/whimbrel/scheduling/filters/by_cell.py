"""Constraints on a host's cell: it is allowed, accepts servers, and reaches the server's networks and storage.

The cell's row lists what it reaches; aggregate metadata can restrict it for some of its hosts. Without a list,
everything is reached.
"""

from collections.abc import Callable, Iterator
from functools import partial
from operator import eq

from whimbrel.domain.ids import CellName
from whimbrel.ports.arrays import Mask
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.fleet import Fleet
from whimbrel.scheduling.constraint import Constraint, Suggestion
from whimbrel.scheduling.filters.by_aggregate import hosts_with, values_under
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

CELL, REACH = "cell", "reach"
PHYSNETS, BACKENDS = "physnets", "storage_backends"
"""Metadata keys of aggregates: comma-separated lists of what their hosts reach."""


def cells(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    fleet = snapshot.fleet
    if request.cells is not None:
        yield Constraint(CELL, fleet.in_cells(request.cells), "in another cell", suggestion=_may_leave)
    out = closed(fleet, request.home_cell if request.cells is not None or request.host else None)
    if out:
        yield Constraint(CELL, ~fleet.in_cells(out), "its cell is disabled", suggestion=_enabled(fleet))


def closed(fleet: Fleet, home: CellName | None) -> set[CellName]:
    """Return the cells that accept no servers.
    home: the cell of a server that may not leave it or has a requested host: it still accepts this server. Servers
    that may leave a disabled cell leave it.
    """
    return {cell.name for cell in fleet.cells.values() if not cell.enabled} - {home}


def reach(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    fleet = snapshot.fleet
    if request.live_from is not None and request.live_from in fleet.cells:
        source = fleet.cells[request.live_from]
        words = f"its cell does not share a migration network with cell {source.name}"
        yield Constraint(REACH, _cells(fleet, source.transfers_to), words, suggestion=_network_of(fleet, source))
    for physnet, what in request.networks.items():
        by_cell = _cells(fleet, partial(_on_network, physnet))
        words = f"it does not reach the physical network of {what}"
        yield _reached(fleet, by_cell, PHYSNETS, physnet, words, "physical network")
    for backend in sorted(request.storage):
        by_cell = _cells(fleet, partial(_at_storage, backend))
        words = "it does not reach the storage that volumes of the server are on"
        yield _reached(fleet, by_cell, BACKENDS, backend, words, "storage back end")


def _may_leave(host_index: int) -> str:
    return "servers that may leave their cell, one by one (policy rule compute:servers:resize:cross_cell)"


def _enabled(fleet: Fleet) -> Suggestion:
    return lambda host_index: f"its cell enabled (whimbrel cell enable {fleet.hosts[host_index].cell})"


def _network_of(fleet: Fleet, source: CellInfo) -> Suggestion:
    named = f"'{source.migration_network}' for" if source.migration_network else "the same for both cells,"
    return lambda place: f"migration_network = {named} {fleet.hosts[place].cell} in cloud.toml"


def _on_network(physnet: str, cell: CellInfo) -> bool:
    return cell.reaches_network(physnet)


def _at_storage(backend: str, cell: CellInfo) -> bool:
    return cell.reaches_storage(backend)


def _cells(fleet: Fleet, reaches: Callable[[CellInfo], bool]) -> Mask:
    """Return the hosts in cells that reach something; a cell without a row counts as reaching everything."""
    return fleet.where("cell", lambda name: name not in fleet.cells or reaches(fleet.cells[name]))


def _reached(fleet: Fleet, by_cell: Mask, key: str, name: str, words: str, kind: str) -> Constraint:
    has_value, matches = hosts_with(fleet, values_under(fleet, key), partial(eq, name))

    def suggestion(host_index: int) -> str:
        if not by_cell[host_index]:
            return f"the {kind} '{name}' among those of its cell, {fleet.hosts[host_index].cell}"
        return f"the {kind} '{name}' under {key} of an aggregate of it"

    return Constraint(REACH, by_cell & (~has_value | matches), words, suggestion=suggestion)
