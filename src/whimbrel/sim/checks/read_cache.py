"""Cache of reads of a world, valid while their databases do not change.

Invariants are checked after each touch. A touch changes one database at most, so most reads stay valid.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from whimbrel.sim.cloud.cloud import World

Read = TypeVar("Read")


class ReadCache:
    def __init__(self, world: World) -> None:
        self._world = world
        self._kept: dict[str, tuple[Any, Any]] = {}

    async def once(
        self, name: str, databases: tuple[str, ...], read: Callable[[], Awaitable[Read]], asked: Any = None
    ) -> Read:
        """Return the result of `read`. databases: all that it reads; asked: its parameters, if they vary."""
        now = ([self._world.remains.databases[each].changes for each in databases], asked)
        kept = self._kept.get(name)
        if kept is None or kept[0] != now:
            kept = self._kept[name] = now, await read()
        found: Read = kept[1]
        return found
