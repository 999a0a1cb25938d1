"""A small durable store of an agent or a simulated host, for state that must survive its process."""

from typing import Protocol


class KeyValueStore(Protocol):
    @property
    def is_shared(self) -> bool:
        """Check whether other processes may write here, so that earlier reads may be stale."""

    async def get(self, space: str, key: str) -> bytes | None:
        """Return a value. None: not set."""

    async def put(self, space: str, key: str, value: bytes) -> None:
        """Write a value durably."""

    async def replace(self, space: str, key: str, before: bytes | None, value: bytes) -> bool:
        """Write a value durably if the current one is `before` (None: not set). Return whether it was."""

    async def delete(self, space: str, key: str) -> None:
        """Remove a value. Idempotent."""

    async def scan(self, space: str) -> dict[str, bytes]:
        """Return all values of a space."""
