"""Stores whose process is killed at one of its writes."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

BEFORE_OR_AFTER = pytest.mark.parametrize("before", [True, False], ids=["before the write", "after the write"])


async def at_each_write(story: Callable[[int], Awaitable[bool]]) -> int:
    """Play a story that is interrupted at write 1, 2, ... until it has no such write. Return the number of that one."""
    number = 1
    while await story(number):
        number += 1
    return number


class Killed(BaseException):
    """The end of a process."""


async def die() -> None:
    raise Killed


class Mortal:
    """A store that kills its process before or after its n-th write, counted with the others.

    then: what happens at this write instead.
    """

    def __init__(
        self,
        inner: Any,
        writes: Sequence[str],
        life: list[int],
        before: bool,
        then: Callable[[], Awaitable[None]] = die,
    ) -> None:
        self._inner = inner
        self._writes = writes
        self._life = life
        self._before = before
        self._then = then

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in self._writes:
            return method

        async def written(*arguments: Any, **named: Any) -> Any:
            self._life[0] -= 1
            is_last = self._life[0] == 0
            if is_last and self._before:
                await self._then()
            try:
                return await method(*arguments, **named)
            finally:
                if is_last and not self._before:
                    await self._then()

        return written
