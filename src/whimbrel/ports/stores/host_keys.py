"""Invitations and public keys of hosts whose agents are on other machines. Each method is one transaction.

A host joins with an invitation, once, and is then admitted by its key until it is retired. It has one key; joining
again replaces it.
"""

from typing import Protocol

import msgspec

from whimbrel.domain.ids import CellName, HostName


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    token_hash: str  # SHA-256 of the secret, hexadecimal; the secret itself is not stored
    host: HostName
    cell: CellName
    created_at: float
    expires_at: float
    used_at: float | None = None

    def is_valid(self, now: float) -> bool:
        return self.used_at is None and now < self.expires_at


class HostKey(msgspec.Struct, frozen=True, kw_only=True):
    host: HostName
    cell: CellName
    public_key: str  # an nkey of a user, "U..."
    joined_at: float
    retired_at: float | None = None


class HostKeys(Protocol):
    async def invite(self, invitation: Invitation) -> None:
        """Store an invitation; the host's unused earlier ones are deleted."""

    async def invitations(self, host: HostName) -> list[Invitation]:
        """Return the host's invitations, used and expired ones too."""

    async def join(self, token_hash: str, public_key: str, now: float) -> HostKey:
        """Use an invitation, and admit the host with this key instead of any earlier one.

        Raises: NotFound: no such invitation, or it was used or has expired; Conflict: the key is another host's.
        """

    async def all(self) -> list[HostKey]:
        """Return the keys of all hosts that ever joined, by name."""

    async def get(self, host: HostName) -> HostKey:
        """Raises: NotFound: the host has never joined."""

    async def retire(self, host: HostName, now: float) -> None:
        """Mark the key as retired, and delete the host's unused invitations. Idempotent; without a key no error."""
