"""The parts of an engine: stores, clock, settings, and the process around it."""

from collections.abc import Awaitable, Callable, Collection
from random import Random
from typing import Any

import msgspec

from whimbrel.domain.run import LogEntry, Run
from whimbrel.ports.clock import Clock
from whimbrel.ports.stores.journal import Journal
from whimbrel.saga.step import SagaRegistry


def _nothing(*_: object) -> None: ...


class EngineParts(msgspec.Struct, frozen=True, kw_only=True):
    journal: Journal
    registry: SagaRegistry
    world: Any  # the second argument of every step
    clock: Clock
    rng: Random  # varies the pauses between tries
    name: str  # the owner of its leases
    lease_s: float
    step_timeout_s: float  # how long a step is retried without an answer before the run rolls back
    show: Callable[[Run, str], Awaitable[None]]  # makes the subject show a step's `shows`
    check_lock: Callable[[Run], Awaitable[None]] | None = None  # raises LockLost if the run lost its subject's lock
    hold: Callable[[str], Awaitable[None]] | None = None  # holds all runs if the database is older than what was done
    took_step: Callable[[Run, LogEntry], None] = _nothing  # counts each step that was done or undone
    # The versions of a list that all processes know which may have to drive it; None: no other process.
    known_to_all: Callable[[str], Collection[int] | None] = _nothing
    # Whether all processes that may have to drive a run heed a fact that was added to released lists.
    heeded_by_all: Callable[[str], bool] = lambda fact: True
    # The conductor of this process, if any. Other conductors find due runs at their next poll.
    adopt: Callable[[Run], bool] | None = None  # takes over a run that a request began; False: it has no capacity
    wake_conductor: Callable[[], None] = _nothing  # wakes it up, or one of another process
