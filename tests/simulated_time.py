"""Tests in simulated time: importing `anyio_backend` from here makes time pass only while everything waits."""

from collections.abc import Callable
from typing import Any

import pytest

from whimbrel.sim.world.loop import SimulatedLoop


class TimedLoop(SimulatedLoop):
    """Has what the runner of the tests asks of a loop besides."""

    _report: Callable[..., object] | None = None

    def set_exception_handler(self, handler: Callable[..., object] | None) -> None:
        self._report = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        super().call_exception_handler(context)
        if self._report:
            self._report(self, context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Nothing: `troubles` has it."""

    async def shutdown_asyncgens(self) -> None:
        """Nothing: there is no hook for them."""

    async def shutdown_default_executor(self) -> None:
        """Nothing: there are no threads."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": lambda: TimedLoop(0)}  # type: ignore[abstract]
