"""Stores whose process is killed at one of its writes."""

from collections.abc import Sequence
from typing import Any

import pytest

BEFORE_OR_AFTER = pytest.mark.parametrize("before", [True, False], ids=["before the write", "after the write"])


class Killed(BaseException):
    """The end of a process."""


class Mortal:
    """A store that kills its process before or after its n-th write, counted with the others."""

    def __init__(self, inner: Any, writes: Sequence[str], life: list[int], before: bool) -> None:
        self._inner = inner
        self._writes = writes
        self._life = life
        self._before = before

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in self._writes:
            return method

        async def written(*arguments: Any, **named: Any) -> Any:
            self._life[0] -= 1
            if self._life[0] == 0 and self._before:
                raise Killed
            try:
                return await method(*arguments, **named)
            finally:
                if self._life[0] == 0:
                    raise Killed

        return written
