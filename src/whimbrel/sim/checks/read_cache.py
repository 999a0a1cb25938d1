"""What was read of a world, kept while the databases that it comes from stay as they are.

The laws are checked after each touch, and a touch changes one database at most: most of what they look at is as it was.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from whimbrel.sim.cloud.cloud import World

Read = TypeVar("Read")


class Readings:
    def __init__(self, world: World) -> None:
        self._world = world
        self._kept: dict[str, tuple[Any, Any]] = {}

    async def once(
        self, name: str, databases: tuple[str, ...], read: Callable[[], Awaitable[Read]], asked: Any = None
    ) -> Read:
        """Give what `read` gives. databases: all that it looks at; asked: what it asks for, where that varies."""
        now = ([self._world.remains.databases[each].changes for each in databases], asked)
        kept = self._kept.get(name)
        if kept is None or kept[0] != now:
            kept = self._kept[name] = now, await read()
        found: Read = kept[1]
        return found
