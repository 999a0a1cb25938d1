"""A small durable store of an agent or a simulated host: what it must remember when its process dies."""

from typing import Protocol


class KeyValueStore(Protocol):
    @property
    def is_shared(self) -> bool:
        """Whether other processes may write here: what was read before may be old."""
        ...

    async def get(self, space: str, key: str) -> bytes | None:
        """Read one value, None where there is none."""
        ...

    async def put(self, space: str, key: str, value: bytes) -> None:
        """Write one value, durably, before returning."""
        ...

    async def replace(self, space: str, key: str, before: bytes | None, value: bytes) -> bool:
        """Write one value, durably, if `before` is what is there (None: nothing); return whether it was."""
        ...

    async def delete(self, space: str, key: str) -> None:
        """Remove one value; fine if it is not there."""
        ...

    async def scan(self, space: str) -> dict[str, bytes]:
        """Read all values of a space."""
        ...
