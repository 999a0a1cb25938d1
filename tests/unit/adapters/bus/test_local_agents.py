"""Agents in the same process, with a time limit: what remains of an order whose caller is gone."""

import asyncio
import gc
from typing import Any

from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import HostName, RunId

HOST = HostName("h1")
ORDER = Order(RunId("1"), 1, 1)


class FailingLater:
    """An agent whose orders fail when they are told to."""

    def __init__(self) -> None:
        self.asked, self.fails = asyncio.Event(), asyncio.Event()
        self.order: asyncio.Task[Any] | None = None

    async def stop(self, *_: Any) -> None:
        self.order = asyncio.current_task()
        self.asked.set()
        await self.fails.wait()
        raise Unavailable("the agent is closed")


async def test_the_error_of_an_order_whose_caller_was_cancelled_is_not_logged_as_lost() -> None:
    lost: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    agent = FailingLater()
    agents: Any = LocalAgents({HOST: agent}, timeout_s=60.0)  # type: ignore[dict-item]
    caller = asyncio.create_task(agents.at(HOST).stop(ORDER, None, 0.0))
    await agent.asked.wait()
    caller.cancel()
    await asyncio.wait([caller])
    agent.fails.set()
    assert agent.order
    await asyncio.wait([agent.order])
    del caller
    agent.order = None
    gc.collect()
    assert lost == []
