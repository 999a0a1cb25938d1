"""A small durable store of an agent or a simulated host, for state that must survive its process."""

from typing import Final, Protocol


class Staged(Protocol):
    """A value that was written and may not be durable yet."""

    async def durable(self) -> None:
        """Return when it is. Raises: Unavailable: it is lost."""


class _Durable:
    async def durable(self) -> None:
        pass


DURABLE: Final[Staged] = _Durable()
"""What stores return that have nothing to stage."""


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

    async def stage(self, space: str, key: str, before: bytes | None, value: bytes) -> Staged | None:
        """Like `replace`, but return before the value is durable: it becomes so with the next write here, if there is
        one soon. None: the current value was another one.
        """

    async def delete(self, space: str, key: str) -> None:
        """Remove a value. Idempotent."""

    async def scan(self, space: str) -> dict[str, bytes]:
        """Return all values of a space."""
