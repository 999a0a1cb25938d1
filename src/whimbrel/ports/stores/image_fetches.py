"""Requests that hosts fetch images ahead of their first use. Each method is one transaction.

A row is one image that one host does not have yet as far as is known. It is removed when the host has the image, or
will not get it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.host import Aggregate
from whimbrel.domain.ids import CellName, HostName


class ImageFetch(msgspec.Struct, frozen=True, kw_only=True):
    host: HostName
    cell: CellName
    image_id: str
    requested_at: float  # seconds since 1970
    due_at: float  # when the host may be asked next


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """How one fetch of a request ended."""

    host: HostName
    image_id: str
    is_cached: bool


class ImageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All that one administrator requested at once, to be announced. outcomes: in the order of their ends."""

    id: str
    aggregate: Aggregate  # as it was then
    hosts: list[HostName]
    images: list[str]
    requested_at: float
    outcomes: list[Outcome] = []

    def done(self) -> Iterator[tuple[HostName, Mapping[str, bool]]]:
        """Yield each host whose fetches have all ended, in that order: image -> whether it is cached."""
        by_host: dict[HostName, dict[str, bool]] = {}
        for each in self.outcomes:
            of_host = by_host.setdefault(each.host, {})
            of_host[each.image_id] = each.is_cached
            if len(of_host) == len(self.images):
                yield each.host, of_host


class ImageFetches(Protocol):
    async def add(self, fetches: Sequence[ImageFetch], request: ImageRequest | None = None, kept_s: float = 0) -> None:
        """Store requests; one for the same host and image is replaced.

        request: what is to be announced of them; those older than `kept_s` are removed.
        """

    async def requests(self) -> list[ImageRequest]:
        """Return what is to be announced, the oldest first."""

    async def due(self, now: float, limit: int) -> list[ImageFetch]:
        """Return up to `limit` requests that are due, those that have waited longest first."""

    async def is_wanted(self, host: HostName, image_id: str) -> bool:
        """Check whether there is a request of this host and image."""

    async def postpone(self, fetch: ImageFetch, due_at: float) -> None:
        """Set when the host is asked next; no effect if the request is gone."""

    async def remove(self, fetch: ImageFetch, is_cached: bool) -> None:
        """Remove a request, and note its outcome in all requests that are announced. Idempotent."""
