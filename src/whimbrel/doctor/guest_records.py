"""What hypervisors say about their guests."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    """A guest of a host. id: its uuid, which is that of its server. is_of_nova: Nova's metadata is in it."""

    id: str
    name: str
    state: str  # running, paused, shut off ...
    is_active: bool
    is_of_nova: bool


class GuestRecords(Protocol):
    hosts: Sequence[str]
    """The hosts that can be asked: names that Nova has."""

    def guests(self, host: str) -> Sequence[Guest]:
        """Return all guests of a host. Raises: Unavailable; Refused."""

    def address(self, host: str) -> str:
        """Return the URI of a host's hypervisor, for commands."""
