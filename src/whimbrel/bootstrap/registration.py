"""The registration of this process: its row, its lease, the operations that require the lease, and the other processes.

Invariant: a process with an exclusive role changes nothing on hosts once its lease may have expired, by a monotonic
clock; if another process has the role by then, it ends.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TypeVar, cast

import structlog

from whimbrel.adapters.clock import DatabaseClock, since_boot
from whimbrel.adapters.sql.engine.schema import revisions
from whimbrel.adapters.sql.tables import MODULES
from whimbrel.conductor.saga_registry import FACTS_ADDED, KNOWN_BEFORE_0_2, SAGAS
from whimbrel.domain.errors import Refused, Superseded, Unavailable, WorldError
from whimbrel.domain.release import Knowledge
from whimbrel.ports.stores.processes import LEASE_S, Processes, ProcessRecord

log = structlog.get_logger(__name__)

RENEW_S = 5.0

DRIVING_ROLES = ("up", "api", "conductor")
"""The roles whose processes read and drive runs."""

Port = TypeVar("Port")


EXCLUSIVE_ROLES = ("up", "image", "volume")
"""The roles of which a cloud has one process."""


def this_process(role: str, name: str, directory: str = "", lock: str = "") -> ProcessRecord:
    """Return the record of this process. lock: identifies the file lock that it holds while it runs; "": none."""
    host, pid = socket.gethostname(), os.getpid()
    id = f"{name}@{host}-{pid}-{secrets.token_hex(3)}"
    return ProcessRecord(
        id=id,
        role=role,
        name=name,
        host=host,
        pid=pid,
        directory=directory,
        lock=lock or id,
        release=version("whimbrel"),
        knows=Knowledge(
            sagas=SAGAS.versions(),
            schemas={kind: revisions(kind)[-1] for kind in MODULES},
            facts=FACTS_ADDED,
        ),
        is_exclusive=role in EXCLUSIVE_ROLES,
    )


class Registration:
    """Maintains the row of one process. elapsed: seconds of a monotonic clock."""

    def __init__(
        self,
        processes: Processes,
        record: ProcessRecord,
        clock: DatabaseClock,
        elapsed: Callable[[], float] = since_boot,
    ) -> None:
        self.record = record
        self.predecessors: tuple[str, ...] = ()
        """Ids of the dead processes that this one replaces."""
        self.processes = processes
        self._clock = clock
        self._elapsed = elapsed
        self._lease_ends = float("-inf")  # in the time of `elapsed`
        self._is_unreachable = False
        self._renewing: asyncio.Task[None] | None = None
        self._live: list[ProcessRecord] = [record]

    async def begin(self) -> None:
        """Register the process and renew its lease from now on.

        Raises: Refused: another process has its exclusive role, or a part of which a cloud has one; Unavailable.
        """
        await self._enter()
        try:
            self._check_parts()
        except Refused:
            await self.processes.leave(self.record)
            raise
        self._renewing = asyncio.create_task(self._renew_for_ever())

    async def run(self) -> None:
        """Wait until cancelled. Raises: Superseded: another process has the exclusive role."""
        assert self._renewing, "it has begun"
        await self._renewing

    async def _enter(self) -> None:
        before = self._elapsed()
        entered = await self.processes.enter(self.record, LEASE_S)
        self._clock.correct(entered.clock)
        self._lease_ends = before + LEASE_S
        self.predecessors = entered.predecessors
        await self._see_others()

    async def _see_others(self) -> None:
        self._live = await self.processes.live(LEASE_S)

    def _check_parts(self) -> None:
        """Raises: Refused. Of two processes that start at once both may be refused."""
        for other in self._live:
            shared = set(other.knows.parts) & set(self.record.knows.parts)
            if other.id != self.record.id and shared:
                raise Refused(
                    f"the {' and '.join(sorted(shared))} of this cloud are in another process: whimbrel {other.role},"
                    f" process {other.pid} on host {other.host}. Stop that one, or have this one use them: `image` and"
                    " `volume` in [services] of the settings say where they are"
                )

    def known_to_all(self, saga: str) -> set[int]:
        """Return the versions of a list that all live processes know which drive runs.

        A process that has just started may be missing. If it does not know the list of a run, it leaves the run alone.
        """
        known = [set((each.knows.sagas or KNOWN_BEFORE_0_2).get(saga, ())) for each in self._driving()]
        return set.intersection(*known)

    def heeded_by_all(self, fact: str) -> bool:
        """Check whether all live processes that drive runs heed a fact. One that has just started may be missing."""
        return all(fact in each.knows.facts for each in self._driving())

    def _driving(self) -> list[ProcessRecord]:
        return [each for each in (self.record, *self._live) if each.role in DRIVING_ROLES]

    async def _renew_for_ever(self) -> None:
        while True:
            await self._clock.sleep(RENEW_S)
            await self.renew()

    async def renew(self) -> None:
        """Raises: Superseded: another process has the exclusive role."""
        before = self._elapsed()
        try:
            self._clock.correct(await self.processes.renew(self.record, LEASE_S))
            self._lease_ends, self._is_unreachable = before + LEASE_S, False
            await self._see_others()
        except Superseded as lost:
            self._lease_ends = float("-inf")
            if self.record.is_exclusive:
                log.error("this process lost its role", reason=lost.reason)
                raise
            await self._begin_again()
        except WorldError as trouble:
            if not self._is_unreachable:  # log once for each outage of the database
                log.warning("the lease of this process was not renewed", reason=trouble.reason)
            self._is_unreachable = True

    async def _begin_again(self) -> None:
        """Register again: the row was deleted, because the lease was not renewed for too long."""
        try:
            await self._enter()
        except WorldError as trouble:
            log.warning("this process was not registered", reason=trouble.reason)

    def check(self) -> None:
        """Raises: Unavailable: the lease of the exclusive role may have expired."""
        if self.record.is_exclusive and self._elapsed() >= self._lease_ends:
            raise Unavailable(
                f"the lease of this process ({self.record.id}) has run out: it does nothing on hosts until the database"
                " has renewed it"
            )

    async def end(self) -> None:
        """Release the lease, so that a successor need not wait for its end."""
        self._lease_ends = float("-inf")
        if self._renewing:
            self._renewing.cancel()
            await asyncio.wait((self._renewing,))
        try:
            await self.processes.leave(self.record)
        except WorldError as trouble:
            log.warning(
                "the lease of this process was not released and will expire", seconds=LEASE_S, reason=trouble.reason
            )


def guarded(port: Port, check: Callable[[], None]) -> Port:
    """Return the same port, with a check before each call."""
    return cast(Port, _Guarded(port, check))


class _Guarded:
    def __init__(self, port: Any, check: Callable[[], None]) -> None:
        self._port = port
        self._check = check

    def __getattr__(self, name: str) -> Any:
        self._check()
        return getattr(self._port, name)
