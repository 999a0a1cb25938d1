"""The network cards of all hosts, from the descriptions that the cells store.

They are read when they are asked for, at most every few seconds, and at once after a change by this process. Invariant:
the hosts of a cell that does not answer stay as they were last read.
"""

from collections.abc import Mapping

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import CellName
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cell
from whimbrel.scheduling.single_flight import SingleFlight

MAX_AGE_S = 5.0
"""After this time a change by another process is seen; a new host is seen when it is asked for."""
MISS_AGE_S = 0.5
"""How often hosts that are not known can have the descriptions read again."""


class StoredNics:
    """Implements ports.embedded.nics.Nics."""

    def __init__(self, cells: Mapping[CellName, Cell], clock: Clock) -> None:
        self._cells = cells
        self._clock = clock
        self._of_cells: dict[CellName, dict[str, HostNet]] = {}
        self._known: Mapping[str, HostNet] = {}
        self._flight = SingleFlight[None]()
        self._changes = -1
        self._read_at = float("-inf")

    async def all(self) -> Mapping[str, HostNet]:
        return await self._younger_than(MAX_AGE_S)

    async def including(self, host: str) -> Mapping[str, HostNet]:
        known = await self.all()
        return known if not host or host in known else await self._younger_than(MISS_AGE_S)

    async def _younger_than(self, age_s: float) -> Mapping[str, HostNet]:
        changes, now = sum(cell.hosts.changes for cell in self._cells.values()), self._clock.now()
        if changes != self._changes or not self._read_at <= now < self._read_at + age_s:
            await self._flight.join(changes, lambda: self._read(changes, now))
        return self._known

    async def _read(self, changes: int, now: float) -> None:
        cells = dict(self._cells)
        for name, cell in cells.items():
            try:
                found = await cell.hosts.descriptions()
            except Unavailable:
                continue
            self._of_cells[name] = {host: description.net for host, description in found.items()}
        self._known = {
            host: net for name, hosts in self._of_cells.items() if name in cells for host, net in hosts.items()
        }
        self._changes, self._read_at = changes, now
