"""The state of the cloud: its incarnation, and whether all runs are held because a database was restored.

A restored database is behind the hosts: ended runs are open again at an old step, and servers are elsewhere. All
runs are then held until `whimbrel restore` has compared the journal with the ledgers of the hosts. Each restore begins
a new incarnation; agents refuse orders of older ones.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Run

RESTORING_SAGAS = ("repair",)
"""The sagas that continue during a restore."""

LOST = "lost"
"""The saga of runs that hosts know and of which the restored journal has no row."""


class CloudHold(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why all runs are held. restoring: a restore has begun, and repairs continue."""

    at: float  # seconds since 1970
    because: str
    restoring: bool = False


class CloudState(msgspec.Struct, frozen=True, kw_only=True):
    incarnation: int = 1
    hold: CloudHold | None = None


class KnownRun(msgspec.Struct, frozen=True, kw_only=True):
    """A store's knowledge of a run. progress: see domain.guest.Order. is_over: according to the journal."""

    epoch: int
    progress: int
    is_over: bool = False


class Restores(Protocol):
    async def state(self) -> CloudState: ...

    async def hold(self, because: str, now: float) -> bool:
        """Hold all runs: none is accepted, taken or saved. Return whether they were not held before."""

    async def begin(self, incarnation: int, because: str, now: float) -> None:
        """Begin a restore: hold all runs but repairs, under a new incarnation. Repeatable."""

    async def end(self) -> None:
        """Release the hold. Repeatable."""

    async def known(self, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        """Return those of these runs that the journal has."""

    async def close(self, run: Run, because: str, now: float) -> None:
        """End a run whose orders on hosts are ahead of the journal; `repair` handles its server. Repeatable."""

    async def note_lost(self, runs: Sequence[Run]) -> None:
        """Save ended runs of which the journal had no row. Repeatable."""
