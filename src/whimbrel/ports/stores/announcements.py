"""What is to be announced, and the lease of the one process that announces. Each method is one transaction.

Invariant: an entry of a run's log is marked by the transaction that saves it, and stays marked until it was noted as
announced. So a crash loses none; it may repeat some.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.ids import ServerId
from whimbrel.domain.run import Action, Run


class MarkedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with entries in its log that are not announced. announced: how many are."""

    run: Run
    announced: int


class MarkedAction(msgspec.Struct, frozen=True, kw_only=True):
    """A request without a run, such as lock, that is not announced."""

    number: int
    action: Action


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """All that is marked of one server; the oldest first."""

    server_id: ServerId
    runs: Sequence[MarkedRun] = ()
    actions: Sequence[MarkedAction] = ()


class Announcements(Protocol):
    async def hold(self, owner: str, now: float, lease_s: float) -> bool:
        """Take or extend the lease of the announcing process. Return whether `owner` has it."""

    async def release(self, owner: str) -> None:
        """End the lease, if `owner` has it."""

    async def marked(self, after: ServerId | None, limit: int) -> list[Marked]:
        """Return what is marked of the next servers in the order of their ids, at most `limit`.

        Runs that only a newer program knows are left out.
        """

    async def note(self, marked: Marked, sent: int, dropped: int) -> None:
        """Note that these entries and actions are announced. sent, dropped: how many notifications, for counters."""
