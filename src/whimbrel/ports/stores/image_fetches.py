"""Requests that hosts fetch images ahead of their first use. Each method is one transaction.

A row is one image that one host does not have yet as far as is known. It is removed when the host has the image, or
will not get it.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.ids import CellName, HostName


class ImageFetch(msgspec.Struct, frozen=True, kw_only=True):
    host: HostName
    cell: CellName
    image_id: str
    requested_at: float  # seconds since 1970
    due_at: float  # when the host may be asked next


class ImageFetches(Protocol):
    async def add(self, fetches: Sequence[ImageFetch]) -> None:
        """Store requests; one for the same host and image is replaced."""

    async def due(self, now: float, limit: int) -> list[ImageFetch]:
        """Return up to `limit` requests that are due, those that have waited longest first."""

    async def is_wanted(self, host: HostName, image_id: str) -> bool:
        """Check whether there is a request of this host and image."""

    async def postpone(self, fetch: ImageFetch, due_at: float) -> None:
        """Set when the host is asked next; no effect if the request is gone."""

    async def remove(self, fetch: ImageFetch) -> None:
        """Remove a request. Idempotent."""
