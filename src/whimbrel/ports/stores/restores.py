"""The state of the cloud as a whole: its incarnation, and whether all runs are held because a database was restored.

A restored database is behind the hosts: runs that ended are open again at an old step, and servers are elsewhere. All
runs are held then until `whimbrel restore` has compared the journal with the ledgers of the hosts. Each restore begins
a new incarnation; agents refuse orders of older ones.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Run

RESTORING_SAGAS = ("repair",)
"""What goes on while a restore is under way."""

LOST = "lost"
"""The saga of runs that a restored journal has no row of, and that the hosts know."""


class CloudHold(msgspec.Struct, frozen=True, kw_only=True):
    """Why all runs are held. restoring: a restore has begun, and repairs go on."""

    at: float  # seconds since 1970
    because: str
    restoring: bool = False


class CloudState(msgspec.Struct, frozen=True, kw_only=True):
    incarnation: int = 1
    hold: CloudHold | None = None


class KnownRun(msgspec.Struct, frozen=True, kw_only=True):
    """How much a store knows of a run. progress: see domain.guest.Order. is_over: by the journal; it is not driven."""

    epoch: int
    progress: int
    is_over: bool = False


class Restores(Protocol):
    async def state(self) -> CloudState: ...

    async def hold(self, because: str, now: float) -> bool:
        """Hold all runs: none is accepted, taken or saved. Return whether they were not held before."""
        ...

    async def begin(self, incarnation: int, because: str, now: float) -> None:
        """Begin a restore: hold all runs but repairs, under a new incarnation. Repeatable."""
        ...

    async def end(self) -> None:
        """Let runs go on. Repeatable."""
        ...

    async def known(self, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        """Return those of these runs that the journal has."""
        ...

    async def close(self, run: Run, because: str, now: float) -> None:
        """End a run that the hosts have seen further than the journal; its server is for `repair`. Repeatable."""
        ...

    async def note_lost(self, runs: Sequence[Run]) -> None:
        """Write down runs that ended, of which the journal had no row. Repeatable."""
        ...
