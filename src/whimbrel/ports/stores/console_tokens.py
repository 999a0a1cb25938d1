"""Tokens with which users connect to consoles. Each method is one transaction.

A token is for one console of one server at one place; it may be used until it expires, or the server is elsewhere.
"""

from typing import Protocol

import msgspec

from whimbrel.domain.console import ConsoleKind
from whimbrel.domain.ids import CellName, HostName, ServerId, Slot


class ConsoleToken(msgspec.Struct, frozen=True, kw_only=True):
    digest: str  # SHA-256 of the token, hexadecimal; the token itself is not stored
    kind: ConsoleKind
    server_id: ServerId
    cell: CellName
    host: HostName
    slot: Slot
    expires_at: float


class ConsoleTokens(Protocol):
    async def add(self, token: ConsoleToken, now: float) -> None:
        """Store a token, and delete those that have expired."""

    async def get(self, digest: str, now: float) -> ConsoleToken:
        """Raises: NotFound: there is no such token, or it has expired."""
