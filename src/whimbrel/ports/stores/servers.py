"""Servers' records in one cell. Each method is one transaction; each change of a run names its order."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from whimbrel.domain.guest import Order
from whimbrel.domain.ids import HostName, ProjectId, RunId, ServerId, Slot, UserId
from whimbrel.domain.server import Server
from whimbrel.ports.stores.pages import Holds, ServerIds
from whimbrel.ports.stores.restores import KnownRun

RecordState = Literal["whole", "shared", "frozen"]
"""The state of a record. whole: the only one. shared: another cell has a copy, and the directory names the home.
frozen: only its run may change it, because its copy is about to become the home record.
"""


class ServerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of a cell's servers; None: any."""

    project_id: ProjectId | None = None
    user_id: UserId | None = None
    states: Sequence[tuple[str, str | None, bool]] | None = None  # as server_states.states_with_status returns them
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
    launched_before: float | None = None  # those that were launched at all
    ended_since: float | None = None  # and those that have not ended
    deleted: bool | None = False  # None: both
    soft_deleted: bool | None = None  # False: without them. True: with them, also if only deleted ones are wanted
    ids: Sequence[ServerId] | None = None
    sort: Sequence[tuple[str, str]] = (("created_at", "desc"), ("id", "desc"))  # (field of Server, asc|desc)
    zone_order: Sequence[str] = ()  # zone ids in sort order; others come first
    after: Server | None = None  # marker: return servers after it
    limit: int | None = None

    @property
    def zone_places(self) -> dict[str, int]:
        """Return the position of each zone in zone_order."""
        return {zone: place for place, zone in enumerate(self.zone_order)}


class Reading(msgspec.Struct, frozen=True):
    """Records of one cell at one moment. copied: those of which another cell has, or recently had, a copy."""

    servers: list[Server]
    copied: frozenset[ServerId] = frozenset()


class Record(msgspec.Struct, frozen=True):
    """A server's record. locked_by: the run that locks it; None: none."""

    server: Server
    locked_by: RunId | None = None


class Servers(ServerIds, Holds, Protocol):
    async def record(self, server_id: ServerId) -> Record:
        """Return a server with the run that locks it. Raises: NotFound."""

    async def get(self, server_id: ServerId) -> Server:
        """Raises: NotFound."""

    async def find(self, query: ServerQuery) -> list[Server]: ...

    async def read(self, query: ServerQuery) -> Reading:
        """Return the records of `find`, and for which of them the directory must confirm this cell as home."""

    async def count(self, host: HostName, without: Collection[ServerId] = ()) -> int:
        """Count the servers on a host, but those named. A frozen copy is counted neither here nor as a host's load."""

    async def insert(self, order: Order, server: Server, standing: RecordState = "whole") -> None:
        """Write a record that arrives in this cell, replacing an older copy. Raises: Superseded."""

    async def stand(self, order: Order, server_id: ServerId, standing: RecordState) -> Server:
        """Set the state of this copy of a record and return the record. Raises: Superseded; NotFound."""

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
        """Lock a server that is unchanged: in this vm_state, with this guest. Repeatable by the run that holds the
        lock.

        What the run read of it stays true while it holds the lock. beside: a parked run, which lends its lock.
        Raises: WrongState: another state, another guest, or another run's lock; NotFound; Superseded.
        """

    async def show_task(self, order: Order, server_id: ServerId, task_state: str | None, now: float) -> None:
        """Set the task_state of a server locked by this run. Repeatable. Raises: as `change_by_run`."""

    async def change_by_run(self, order: Order, server_id: ServerId, fields: Mapping[str, Any]) -> None:
        """Set fields of a server locked by this run. Repeatable.

        Raises: LockLost: this run does not hold the lock; Superseded; NotFound.
        """

    async def unlock(
        self, order: Order, server_id: ServerId, fields: Mapping[str, Any], beside: RunId | None = None
    ) -> None:
        """Set fields, clear task_state and release the run's lock. No effect if this run does not hold it.

        beside: the run that lent the lock and gets it back.
        """

    async def erase(self, order: Order, server_id: ServerId) -> None:
        """Delete the row (a copy that is no longer the home record). Idempotent."""

    async def orders_of(self, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        """Return the newest obeyed order of these runs; others are omitted."""

    async def note_order(self, order: Order) -> None:
        """Record an order that was obeyed before the database was restored. Raises: Superseded."""

    async def forget_fences(self, runs: Sequence[RunId]) -> None:
        """Forget runs that ended so long ago that no order of theirs can still arrive."""

    async def change(self, server: Server, fields: Mapping[str, Any]) -> Server:
        """Set fields that the owner may change, if the generation is the one that was read. Return the new record.

        Raises: Conflict: a concurrent change, or the record is frozen; NotFound.
        """
