"""The directory: the only authority on a server's cell and quota usage. Each method is one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from whimbrel.domain.guest import Order
from whimbrel.domain.ids import CellName, ProjectId, ServerId, UserId
from whimbrel.domain.server import Server
from whimbrel.ports.stores.pages import ServerIds


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A server's entry. The record is in the cell, or in `unplaced` while the server has no cell."""

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
    """A project's quota usage; each server counts once, also while it moves."""

    instances: int = 0
    cores: int = 0
    ram_mib: int = 0


class Switches(msgspec.Struct, frozen=True, kw_only=True):
    """Servers that changed their cell, with their current cells. number: all changes so far; it only increases."""

    number: int
    homes: dict[ServerId, CellName] = {}


class Directory(ServerIds, Protocol):
    async def entry(self, server_id: ServerId, deleted_too: bool = False) -> Entry:
        """Raises: NotFound (for deleted servers too, unless `deleted_too`)."""

    async def entries(self, server_ids: Sequence[ServerId]) -> dict[ServerId, Entry]:
        """Return the entries of these servers, deleted ones included; missing ones are omitted."""

    async def residents(
        self, cells: Sequence[CellName], project_id: ProjectId | None, limit: int | None = None
    ) -> list[Entry]:
        """Return the entries of servers in these cells, the newest first; used if the cells do not answer."""

    async def unplaced(self, project_id: ProjectId | None) -> list[Server]:
        """Return the records of servers without a cell (being scheduled, or no host was found)."""

    async def unplaced_ids(self, project_id: ProjectId | None) -> list[ServerId]:
        """Return the ids of servers without a cell."""

    async def homes(self) -> dict[CellName, int]:
        """Count the servers of each cell; cells without servers are omitted."""

    async def usage(self, project_id: ProjectId, user_id: UserId | None = None) -> Usage: ...

    async def place(self, order: Order, server_id: ServerId, cell: CellName, generation: int) -> None:
        """Set the cell of an entry; the unplaced record, read at `generation`, is now in the cell. Repeatable.

        Raises: Superseded; Conflict: the record was changed since it was read.
        """

    async def switch(self, order: Order, server_id: ServerId, cell: CellName) -> None:
        """Change the cell of a server's entry; the record is already in the new cell. Repeatable.

        Raises: Superseded.
        """

    async def switched_since(self, number: int | None) -> Switches:
        """Return the servers that changed their cell after a number. None: only the current number."""

    async def adopt(self, order: Order, server: Server) -> None:
        """Ensure an entry for a server whose record is in its cell but whose entry is lost. Idempotent.

        Raises: Superseded.
        """

    async def displace(self, order: Order, server: Server) -> None:
        """Move the record back into the entry, without a cell. Repeatable. Raises: Superseded."""

    async def change_by_run(self, order: Order, server_id: ServerId, fields: Mapping[str, Any]) -> None:
        """Set fields of an unplaced server's record; no effect if it has a cell. Repeatable. Raises: Superseded."""

    async def change_unplaced(self, server: Server, fields: Mapping[str, Any]) -> Server:
        """Set fields that the owner may change, as `Servers.change` does. Raises: Conflict; NotFound."""

    async def enter_project(self, order: Order, server_id: ServerId, project_id: ProjectId) -> None:
        """Move the server, with its quota usage, to this project. Repeatable. Raises: Superseded."""

    async def book(self, order: Order, server_id: ServerId, vcpus: int, memory_mib: int) -> None:
        """Set the server's quota usage. Repeatable. Raises: Superseded."""

    async def erase(self, order: Order, server_id: ServerId, now: float) -> None:
        """Mark the entry deleted, without quota usage. Repeatable."""

    async def want_delete(self, server_id: ServerId, request_id: str, user_id: UserId) -> None:
        """Request the deletion of the server when its open run ends."""

    async def wanted_deletes(self) -> list[tuple[ServerId, str, UserId]]:
        """Return servers that wait for deletion, without open runs (parked ones aside): (server, request id, user)."""
