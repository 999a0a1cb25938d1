"""Servers' records in one cell. Each method is one transaction; each change of a move names its order."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from whimbrel.domain.guest import Order
from whimbrel.domain.ids import HostName, ProjectId, RunId, ServerId, Slot, UserId
from whimbrel.domain.server import Server
from whimbrel.ports.stores.fleet import Load
from whimbrel.ports.stores.pages import Holds, ServerIds
from whimbrel.ports.stores.restores import KnownRun

RecordState = Literal["whole", "shared", "frozen"]
"""How a record stands: as the only one; with a copy in another cell, where the directory says which counts; and so that
nobody but its run may change it, because its copy is about to count instead."""


class ServerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which servers of a cell to list; None: any."""

    project_id: ProjectId | None = None
    user_id: UserId | None = None
    states: Sequence[tuple[str, str | None, bool]] | None = None  # as machine.states_with_status gives them
    vm_states: Sequence[str] | None = None
    task_states: Sequence[str | None] | None = None
    host: HostName | None = None
    flavor_id: str | None = None
    image_id: str | None = None
    zone: str | None = None
    key_name: str | None = None
    hostname: str | None = None
    reservation_id: str | None = None
    locked: bool | None = None
    tags: Sequence[str] = ()  # all of them
    tags_any: Sequence[str] = ()  # one of them
    not_tags: Sequence[str] = ()  # not all of them
    not_tags_any: Sequence[str] = ()  # none of them
    changed_since: float | None = None
    changed_before: float | None = None
    created_at: float | None = None
    launched_at: float | None = None
    terminated_at: float | None = None
    deleted: bool | None = False  # None: both
    ids: Sequence[ServerId] | None = None
    sort: Sequence[tuple[str, str]] = (("created_at", "desc"), ("id", "desc"))  # (field of Server, asc|desc)
    zone_order: Sequence[str] = ()  # in which order a sort by zone has them, for their ids have none; others come first
    after: Server | None = None  # marker: what comes after it in that order
    limit: int | None = None

    @property
    def zone_places(self) -> dict[str, int]:
        """Give the place of each zone in their order."""
        return {zone: place for place, zone in enumerate(self.zone_order)}


class Reading(msgspec.Struct, frozen=True):
    """Records of one cell, as one moment had them. copied: those of which another cell has one too, or had lately."""

    servers: list[Server]
    copied: frozenset[ServerId] = frozenset()


class Servers(ServerIds, Holds, Protocol):
    async def get(self, server_id: ServerId) -> Server:
        """Raises: NotFound."""
        ...

    async def find(self, query: ServerQuery) -> list[Server]: ...

    async def read(self, query: ServerQuery) -> Reading:
        """Give the same as `find`, and of which of them the directory must be asked whether this is their home."""
        ...

    async def count(self, host: HostName) -> int:
        """Count the servers that live on a host. A frozen copy is counted neither here nor below."""
        ...

    async def loads(self) -> dict[HostName, Load]:
        """Count the servers of each host, and those whose present task loads its disk."""
        ...

    async def images(self) -> dict[HostName, dict[str, int]]:
        """Count the servers of each host by the image that they were made of; who boots from a volume has none."""
        ...

    async def insert(self, order: Order, server: Server, standing: RecordState = "whole") -> None:
        """Write a record that arrives in this cell, replacing an older copy of it. Raises: Superseded."""
        ...

    async def stand(self, order: Order, server_id: ServerId, standing: RecordState) -> Server:
        """Say how this copy of a record stands to the one in another cell; give it. Raises: Superseded; NotFound."""
        ...

    async def lock(
        self,
        order: Order,
        server_id: ServerId,
        task_state: str | None,
        vm_state: str,
        slot: Slot | None,
        now: float,
        beside: RunId | None = None,
    ) -> None:
        """Take a server that is as it was read, in this vm_state with this guest; fine if this run holds the lock.

        What the run knows of it stays true as long as it holds the lock. beside: a parked run, which lends its lock.
        Raises: WrongState: another state, another guest, or another run's lock; NotFound; Superseded.
        """
        ...

    async def show_task(self, order: Order, server_id: ServerId, task_state: str | None, now: float) -> None:
        """Set the task_state of a server that this run has locked. Repeatable. Raises: as `change_by_run`."""
        ...

    async def change_by_run(self, order: Order, server_id: ServerId, fields: Mapping[str, Any]) -> None:
        """Set fields of Server on a server that this run has locked. Repeatable.

        Raises: LockLost: it has not; Superseded; NotFound.
        """
        ...

    async def unlock(
        self, order: Order, server_id: ServerId, fields: Mapping[str, Any], beside: RunId | None = None
    ) -> None:
        """Set fields, task_state None and give up the run's lock. Fine if this run does not hold it.

        beside: the run that lent the lock, and has it again.
        """
        ...

    async def erase(self, order: Order, server_id: ServerId) -> None:
        """Remove the row altogether (a copy that is no longer the server). Fine if it is not there."""
        ...

    async def orders_of(self, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        """Return the newest order of these runs that was obeyed here; others are left out."""
        ...

    async def note_order(self, order: Order) -> None:
        """Remember an order that was obeyed here before the database was restored. Raises: Superseded."""
        ...

    async def forget_fences(self, runs: Sequence[RunId]) -> None:
        """Forget runs that ended so long ago that no order of theirs can still be on its way."""
        ...

    async def change(self, server: Server, fields: Mapping[str, Any]) -> Server:
        """Set fields that the owner may change, guarded by the generation that was read; give the new record.

        Raises: Conflict: somebody was faster, or the record is frozen; NotFound.
        """
        ...
