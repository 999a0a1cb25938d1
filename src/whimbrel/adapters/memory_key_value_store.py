"""A key-value store in memory, for tests and simulations."""

from whimbrel.ports.hosts.key_value_store import DURABLE, Staged


class MemoryKeyValueStore:
    """Implements KeyValueStore. Agents and hosts that are recreated on the same instance find what they stored."""

    is_shared = True

    def __init__(self) -> None:
        self._spaces: dict[str, dict[str, bytes]] = {}

    async def get(self, space: str, key: str) -> bytes | None:
        return self._spaces.get(space, {}).get(key)

    async def put(self, space: str, key: str, value: bytes) -> None:
        self._spaces.setdefault(space, {})[key] = value

    async def replace(self, space: str, key: str, before: bytes | None, value: bytes) -> bool:
        values = self._spaces.setdefault(space, {})
        if values.get(key) != before:
            return False
        values[key] = value
        return True

    async def stage(self, space: str, key: str, before: bytes | None, value: bytes) -> Staged | None:
        return DURABLE if await self.replace(space, key, before, value) else None

    async def delete(self, space: str, key: str) -> None:
        self._spaces.get(space, {}).pop(key, None)

    async def scan(self, space: str) -> dict[str, bytes]:
        return dict(sorted(self._spaces.get(space, {}).items()))

    def copy(self) -> "MemoryKeyValueStore":
        """Return another store with the same values."""
        other = MemoryKeyValueStore()
        other._spaces = {space: dict(values) for space, values in self._spaces.items()}
        return other
