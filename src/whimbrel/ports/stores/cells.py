"""Cells: name, database, the networks and storage that their hosts reach, and whether they take servers.

Invariant: cloud.toml describes the cells and commands can change them; a value changed by a command stays, whatever
the settings later say, and every other value follows the settings. A database named in the settings is used; a database
is never dropped because the settings no longer name it.
"""

from typing import Protocol

import msgspec

from whimbrel.domain.ids import CellName


class CellInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The stored properties of a cell. Its hosts and servers are in `Cloud.cells`."""

    name: CellName
    database: str | None = None  # URL; None: the cloud's own
    enabled: bool = True  # a disabled cell takes no new servers; its servers stay and work
    disabled_reason: str | None = None
    physnets: frozenset[str] | None = None  # the physical networks that its hosts reach; None: all
    storage: frozenset[str] | None = None  # the storage back ends that its hosts reach; None: all
    migration_network: str | None = None  # on which its hosts transfer live guests to other cells'; None: none
    in_settings: bool = False  # otherwise a command added it
    created_at: float = 0.0

    def reaches_network(self, physnet: str) -> bool:
        return self.physnets is None or physnet in self.physnets

    def transfers_to(self, other: "CellInfo") -> bool:
        """Check whether hosts of this cell reach those of another for live migrations."""
        return self.name == other.name or (
            self.migration_network is not None and self.migration_network == other.migration_network
        )

    def reaches_storage(self, backend: str) -> bool:
        return self.storage is None or backend in self.storage


class Cells(Protocol):
    @property
    def changes(self) -> int:
        """Count the changes of cells through this object."""

    async def all(self) -> list[CellInfo]:
        """Return all, by name."""

    async def get(self, name: CellName) -> CellInfo:
        """Raises: NotFound."""

    async def add(self, cell: CellInfo) -> None:
        """Add a cell by a command. Raises: Conflict: name taken; Invalid: database URL."""

    async def ensure(self, said: CellInfo) -> CellInfo:
        """Update a cell to the settings, except for values changed by commands. Return the result."""

    async def set_enabled(self, name: CellName, enabled: bool, reason: str | None) -> CellInfo:
        """Enable or disable a cell; an enabled cell has no reason. Raises: NotFound."""

    async def forget(self, name: CellName) -> None:
        """Remove a cell. Idempotent. The caller ensures that it has no servers."""
