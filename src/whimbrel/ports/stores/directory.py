"""The directory: the only truth about where a server lives, and what it counts for. Each method is one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from whimbrel.domain.guest import Order
from whimbrel.domain.ids import CellName, ProjectId, ServerId, UserId
from whimbrel.domain.server import Server
from whimbrel.ports.stores.pages import ServerIds


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A server's entry. Its record is in the cell, or in `unplaced` as long as it has none."""

    server_id: ServerId
    project_id: ProjectId
    user_id: UserId
    cell: CellName | None
    unplaced: Server | None
    vcpus: int
    memory_mib: int
    created_at: float
    deleted_at: float | None = None
    delete_wanted_by: str | None = None  # request id of a DELETE that waits for an open run to end


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a project uses of its quota; each server counts once, also while it moves."""

    instances: int = 0
    cores: int = 0
    ram_mib: int = 0


class Switches(msgspec.Struct, frozen=True, kw_only=True):
    """Servers that changed their cell, and where they are now. number: how many ever did; it only rises."""

    number: int
    homes: dict[ServerId, CellName] = {}


class Directory(ServerIds, Protocol):
    async def entry(self, server_id: ServerId, deleted_too: bool = False) -> Entry:
        """Raises: NotFound (also for deleted servers unless they are asked for by `deleted_too`)."""
        ...

    async def entries(self, server_ids: Sequence[ServerId]) -> dict[ServerId, Entry]:
        """Give the entries of these servers; missing ones are left out, deleted ones are in."""
        ...

    async def residents(
        self, cells: Sequence[CellName], project_id: ProjectId | None, limit: int | None = None
    ) -> list[Entry]:
        """List who lives in these cells, the newest first: what is known of them where the cells do not answer."""
        ...

    async def unplaced(self, project_id: ProjectId | None) -> list[Server]:
        """List the records of servers that live in no cell (being scheduled, or no host was found)."""
        ...

    async def unplaced_ids(self, project_id: ProjectId | None) -> list[ServerId]:
        """List who lives in no cell, without their records."""
        ...

    async def homes(self) -> dict[CellName, int]:
        """Count who lives in each cell; cells in which nobody lives are left out."""
        ...

    async def usage(self, project_id: ProjectId, user_id: UserId | None = None) -> Usage: ...

    async def place(self, order: Order, server_id: ServerId, cell: CellName, generation: int) -> None:
        """Point the entry at a cell; the unplaced record, read at `generation`, is now there. Repeatable.

        Raises: Superseded; Conflict: the record was changed since it was read.
        """
        ...

    async def switch(self, order: Order, server_id: ServerId, cell: CellName) -> None:
        """Point the entry of a placed server at another cell, where its record is by now. Repeatable.

        Raises: Superseded.
        """
        ...

    async def switched_since(self, number: int | None) -> Switches:
        """Give the servers that changed their cell after a number; None: only the number that there is now."""
        ...

    async def adopt(self, order: Order, server: Server) -> None:
        """Have an entry for a server whose record is in its cell and whose entry is lost; fine if there is one.

        Raises: Superseded.
        """
        ...

    async def displace(self, order: Order, server: Server) -> None:
        """Take the record back into the entry, in no cell. Repeatable. Raises: Superseded."""
        ...

    async def change_by_run(self, order: Order, server_id: ServerId, fields: Mapping[str, Any]) -> None:
        """Set fields of an unplaced server's record; fine if it is placed. Repeatable. Raises: Superseded."""
        ...

    async def change_unplaced(self, server: Server, fields: Mapping[str, Any]) -> Server:
        """Set fields that the owner may change, as `Servers.change` does. Raises: Conflict; NotFound."""
        ...

    async def enter_project(self, order: Order, server_id: ServerId, project_id: ProjectId) -> None:
        """Have the server be of this project, for which it counts. Repeatable. Raises: Superseded."""
        ...

    async def book(self, order: Order, server_id: ServerId, vcpus: int, memory_mib: int) -> None:
        """Set what the server counts for. Repeatable. Raises: Superseded."""
        ...

    async def erase(self, order: Order, server_id: ServerId, now: float) -> None:
        """Mark the entry deleted: it counts for nothing any more. Repeatable."""
        ...

    async def want_delete(self, server_id: ServerId, request_id: str, user_id: UserId) -> None:
        """Note that the server is to be deleted as soon as its open run ends."""
        ...

    async def wanted_deletes(self) -> list[tuple[ServerId, str, UserId]]:
        """List servers that wait to be deleted and have no open run, parked ones aside: (server, request id, user)."""
        ...
