"""One reading for all callers at about the same time, so that many callers cause as many reads as one."""

from asyncio import Lock
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from whimbrel.domain.errors import Unavailable

T = TypeVar("T")


class SharedReading(Generic[T]):
    """The latest reading of this process. Nothing is stored."""

    def __init__(self) -> None:
        self.begun = 0  # readings so far
        self._latest: tuple[int, T] | None = None
        self._failed: tuple[int, str] = 0, ""
        self._lock = Lock()

    async def after(self, number: int, read: Callable[[], Awaitable[T]]) -> tuple[int, T]:
        """Return a reading that began after this many others had begun, and its number; read only if there is none.

        With `begun` as the number, the reading shows all that was stored before this call.
        Raises: Unavailable: such a reading has failed.
        """
        async with self._lock:
            if self._latest and self._latest[0] > number:
                return self._latest
            if self._failed[0] > number:
                raise Unavailable(self._failed[1])
            self.begun += 1
            began = self.begun
            try:
                self._latest = began, await read()
            except Unavailable as trouble:
                self._failed = began, trouble.reason
                raise
            return self._latest
