"""Tasks that go on when the caller that waited for them is cancelled."""

from asyncio import Future
from typing import Any


def retrieve(task: "Future[Any]") -> None:
    """Retrieve the error of a task that has ended, which asyncio logs if no caller is left to receive it."""
    if not task.cancelled():
        task.exception()
