"""Cells as operators know them: what each is called, where its records lie, what its hosts reach, if it takes servers.

Law: cloud.toml says what a cell is and commands may change it; what a command changed stays as it is, whatever the
settings say later, and everything else follows the settings. A cell's database is the one of the settings if they name
one; no database is ever forgotten because they no longer do.
"""

from typing import Protocol

import msgspec

from whimbrel.domain.ids import CellName


class CellInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is written down of a cell. Its hosts and servers are behind `Cloud.cells`."""

    name: CellName
    database: str | None = None  # URL; None: the cloud's own
    enabled: bool = True  # a disabled cell takes no more servers; those that it has stay and work
    disabled_reason: str | None = None
    physnets: frozenset[str] | None = None  # the physical networks that its hosts reach; None: all
    storage: frozenset[str] | None = None  # the storage back ends that its hosts reach; None: all
    in_settings: bool = False  # else a command added it
    created_at: float = 0.0

    def reaches_network(self, physnet: str) -> bool:
        return self.physnets is None or physnet in self.physnets

    def reaches_storage(self, backend: str) -> bool:
        return self.storage is None or backend in self.storage


class Cells(Protocol):
    @property
    def changes(self) -> int:
        """Tell how often cells were changed by way of this very object."""
        ...

    async def all(self) -> list[CellInfo]:
        """List all in the order of their names."""
        ...

    async def get(self, name: CellName) -> CellInfo:
        """Raises: NotFound."""
        ...

    async def add(self, cell: CellInfo) -> None:
        """Write down a cell that a command adds. Raises: Conflict: name taken; Invalid: the URL of its database."""
        ...

    async def ensure(self, said: CellInfo) -> CellInfo:
        """Have a cell that the settings name be what they say, but for what a command changed; give what it is."""
        ...

    async def set_enabled(self, name: CellName, enabled: bool, reason: str | None) -> CellInfo:
        """Let a cell take servers or not; an enabled one has no reason. Raises: NotFound."""
        ...

    async def forget(self, name: CellName) -> None:
        """Have it no longer written down; fine if it is not. The caller knows that no server lives in it."""
        ...
